//! `llts tdf server NAME CFG`: the rounds of a namespace, until Ctrl-C.

use std::path::Path;

use clap::Args;

use crate::shell::{Server, ServerError};
use api::config::ServerConfig;
use proc::logging;
use proc::signals::{STOP, Signals};
use term::exit::Failure;
use term::output::note;
use term::session::Session;

const ABOUT: &str = "\
The server expires tasks that were not finished by end_before, times runs out, and judges
executed tasks: one that wrote to stderr has failed. It mends what a killed component has
left. Of several servers of one namespace one is at work, the others stand by.

CFG needs [redis], [tdf] and
    [server]
    round_duration=1.3

Exits with 0 after Ctrl-C; 1 if it cannot start; 3 if Redis is away at the start, 4 if it
refuses.";

/// What the two arguments are.
const ARGUMENTS: [&str; 2] = ["NAME: the name of this server", "CFG: the path of its configuration file (server.cfg)"];

#[derive(Args, Debug)]
#[command(after_help = ABOUT, override_usage = "llts tdf server [OPTIONS] NAME CFG")]
pub(crate) struct ServerArgs {
    /// The name of the server, and the path of its configuration file
    #[arg(value_name = "NAME CFG")]
    arguments: Vec<String>,
}

pub(crate) fn run(session: &mut Session, args: &ServerArgs) -> Result<u8, Failure> {
    let [name, file] = super::exactly(&args.arguments, ARGUMENTS)?;
    let config = ServerConfig::load(Path::new(file)).map_err(Failure::failed)?;
    config.tdf.warnings.iter().for_each(|warning| note(warning));
    // Before any thread is started, so that all of them leave these signals to the loop.
    let signals = Signals::install(&STOP).map_err(Failure::failed)?;
    logging::init(&session.config.log, None).map_err(Failure::failed)?;
    let server = Server::start(&config, name, session.config.tdf.max_losses, rand::random());
    let server = server.map_err(|error| match &error {
        ServerError::Redis(error) => super::failure(error),
        _ => Failure::failed(error),
    })?;
    note(&format!("tdf server {name} ready: namespace {}", config.tdf.namespace));
    server.run(Some(signals), None);
    Ok(0)
}
