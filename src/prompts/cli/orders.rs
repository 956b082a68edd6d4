//! `llts prompt pause`, `resume` and `drain`: orders to a running master.

use clap::Args;

use super::status::refused;
use crate::files::status;
use crate::wire::{FromWorker, Order};
use base::Usd;
use term::exit::Failure;
use term::session::Session;

#[derive(Args, Debug)]
#[command(after_help = "\
A paused master stays paused across restarts, and running prompts go on. A drained master ends when
they have ended; its workers wait for the next one.")]
pub(crate) struct OrderArgs {
    /// The master's host
    #[arg(default_value = "localhost")]
    host: String,
    /// The master's port [default: prompt.PORT]
    port: Option<u16>,
}

#[derive(Args, Debug)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    master: OrderArgs,
    /// The cost of all prompts, including those before, at which the master pauses again; it holds across restarts
    #[arg(long, value_name = "USD", value_parser = super::usd)]
    max_cost: Option<Usd>,
}

pub(crate) fn resume(session: &mut Session, args: &ResumeArgs) -> Result<u8, Failure> {
    let Some(max) = args.max_cost else { return run(session, &args.master, Order::Resume) };
    let secret = super::secret(session);
    give(session, &args.master, &FromWorker::Budget { max, secret })
}

pub(crate) fn run(session: &mut Session, args: &OrderArgs, order: Order) -> Result<u8, Failure> {
    let secret = super::secret(session);
    give(session, args, &FromWorker::Order { order, secret })
}

fn give(session: &mut Session, args: &OrderArgs, message: &FromWorker) -> Result<u8, Failure> {
    let master = super::server(session, &args.host, args.port)?;
    let status = status::request(&master, message, session.config.client.reply_timeout);
    super::status::show(&mut session.out, &status.map_err(|error| refused(&error))?);
    Ok(0)
}
