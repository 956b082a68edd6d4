//! `llts spool server DIR`: keeps the tasks of a folder until Ctrl-C.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::shell::server::ListsServer;
use proc::logging;
use proc::signals::{STOP, Signals};
use term::exit::Failure;
use term::output::note;
use term::session::Session;

#[derive(Args, Debug)]
#[command(after_help = "\
DIR gets a folder for each state: new, open, running, closed, completed, completed_archive,
failed, failed_archive, failed_time, failed_count. Files that any program puts into new/ are
picked up at once. A command has failed if it writes to stderr; its exit code is not looked at.

Exits with 0 after Ctrl-C; lists that run are then delivered to the next server. 1 if it
cannot start, or if DIR vanishes.")]
pub(crate) struct ServerArgs {
    /// Folder with the tasks [default: lists.DIR]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// TCP port; 0 uses a free one [default: lists.PORT]
    #[arg(long)]
    port: Option<u16>,
}

pub(super) fn run(session: &mut Session, dir: Option<&Path>, args: &ServerArgs) -> Result<u8, Failure> {
    let config = &session.config;
    // This comes before any thread is started, so that all of them leave these signals to the loop.
    let signals = Signals::install(&STOP).map_err(Failure::failed)?;
    logging::init(&config.log, None).map_err(Failure::failed)?;
    let folder = super::named(session, args.folder.as_deref().or(dir))?;
    let server = ListsServer::start(config, folder, args.port.unwrap_or(config.lists.port));
    let server = server.map_err(Failure::failed)?;
    let ready = server.ready_line();
    if session.out.is_json() {
        note(&ready);
    } else {
        session.out.line(ready);
    }
    server.run(Some(signals)).map_err(Failure::failed)?;
    Ok(0)
}
