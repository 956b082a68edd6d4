//! `llts prompt pause`, `resume` and `drain`: orders to a running master.

use clap::Args;

use super::status::refused;
use crate::cli::Session;
use crate::cli::exit::Failure;
use crate::protocol::prompt::Order;
use crate::shell::prompt_status;

#[derive(Args, Debug)]
#[command(after_help = "\
A paused master stays paused across restarts, and running prompts go on. A drained master ends when
they have ended; its workers wait for the next one.")]
pub(in crate::cli) struct OrderArgs {
    /// The master's host
    #[arg(default_value = "localhost")]
    host: String,
    /// The master's port [default: prompt.PORT]
    port: Option<u16>,
}

pub(in crate::cli) fn run(session: &mut Session, args: &OrderArgs, order: Order) -> Result<u8, Failure> {
    let prompt = &session.config.prompt;
    let secret = prompt.secret.as_ref().map(|secret| secret.reveal().to_owned());
    let (master, timeout) = (super::server(session, &args.host, args.port)?, session.config.client.reply_timeout);
    let status = prompt_status::order(&master, order, secret, timeout).map_err(|error| refused(&error))?;
    super::status::show(&mut session.out, &status);
    Ok(0)
}
