//! `llts prompt tail`: the output of a prompt, while its command writes it.

use clap::Args;

use super::status::refused;
use super::worker::{Patience, patience};
use crate::files::tail;
use crate::files::tail::{Source, TailEnd};
use crate::wire::{ResultFile, TailQuery};
use term::exit::{BROKEN_PIPE, Failure};
use term::output::note;
use term::session::Session;

#[derive(Args, Debug)]
#[command(after_help = "\
Follows a running prompt until its command has ended, wherever its worker is. Of a finished
prompt, and of one that waits again after a run without a result, the kept output is
written. If the connection is lost, or the master is restarted, it goes on where it was; if
the run ends without a result, with the next run of the prompt, from its beginning. Standard
error says so. Exits with 3 if no master was found, or none came back in time, and with 4 if
there is no output, and says why.")]
pub(crate) struct TailArgs {
    /// The name of the prompt
    name: String,
    /// The master's host
    #[arg(default_value = "localhost")]
    host: String,
    /// The master's port [default: prompt.PORT]
    port: Option<u16>,
    /// How long to look for a master that is gone
    #[arg(long, value_name = "SECONDS|forever", default_value = "forever", value_parser = patience)]
    patience: Patience,
    /// Follow the error output
    #[arg(long)]
    err: bool,
}

pub(crate) fn run(session: &Session, args: &TailArgs) -> Result<u8, Failure> {
    let prompt = &session.config.prompt;
    let secret = prompt.secret.as_ref().map(api::config::Secret::reveal);
    let output = if args.err { ResultFile::Err } else { ResultFile::Out };
    let query = TailQuery { file: args.name.clone(), output, offset: 0, run: None, next: false };
    let master = super::server(session, &args.host, args.port)?;
    let (timeout, Patience(patience)) = (session.config.client.reply_timeout, args.patience);
    let pause_max = session.config.prompt_worker.reconnect_interval_max;
    let source = Source { master: &master, secret, timeout, patience, pause_max };
    let end = tail::tail(&source, query, &mut std::io::stdout().lock(), note);
    match end.map_err(|error| refused(&error))? {
        TailEnd::Whole => Ok(0),
        TailEnd::Broken => Ok(BROKEN_PIPE),
    }
}
