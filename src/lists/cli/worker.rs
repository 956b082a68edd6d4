//! `llts spool worker NAME`: runs the lists of a server until Ctrl-C.

use clap::Args;

use crate::engine::worker::{End, Settings};
use crate::shell::worker;
use crate::shell::worker::Work;
use base::tdf::WorkerName;
use proc::logging;
use term::exit;
use term::exit::Failure;
use term::session::Session;

#[derive(Args, Debug)]
#[command(after_help = "\
Commands run in the current folder, each as sh -c CMD, one after the other; their stdin is
empty. A command whose until has passed is not started. Ctrl-C ends the command that runs;
what has ended is delivered, and the rest of the list is open again at once.

Exits with 0 after Ctrl-C; 1 if commands cannot be started, or if results could not be
delivered; 3 if no server was reached, 4 if it refuses.")]
pub(crate) struct WorkerArgs {
    /// Name of the worker, which no other one has
    #[arg(value_parser = name)]
    name: WorkerName,
    /// Address of the server [default: 127.0.0.1 and lists.PORT]
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    server: Option<(String, u16)>,
}

fn name(text: &str) -> Result<WorkerName, String> {
    WorkerName::new(text).map_err(|error| error.to_string())
}

fn address(text: &str) -> Result<(String, u16), String> {
    let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let parts = parts.filter(|(host, port)| !host.is_empty() && *port != 0);
    let (host, port) = parts.ok_or("it is not HOST:PORT, such as 127.0.0.1:34568")?;
    Ok((host.trim_start_matches('[').trim_end_matches(']').to_owned(), port))
}

pub(super) fn run(session: &Session, args: &WorkerArgs) -> Result<u8, Failure> {
    let config = &session.config;
    logging::init(&config.log, None).map_err(Failure::failed)?;
    let lists = &config.lists;
    let (host, port) = args.server.clone().unwrap_or_else(|| ("127.0.0.1".to_owned(), lists.port));
    let server = format!("{host}:{port}");
    let folder = std::env::current_dir()
        .map_err(|error| Failure::failed(format!("the current folder cannot be named: {error}")))?;
    let settings = Settings {
        name: args.name.clone(),
        secret: lists.server.secret.clone(),
        patience: lists.patience,
        reconnect_interval_max: lists.reconnect_interval_max,
        kill_interval: lists.kill_interval,
        straggler_grace: lists.straggler_grace,
    };
    let work = Work { host, port, folder, work_dir: lists.work_dir.clone(), settings };
    match worker::run(work, session.guard()?).map_err(Failure::failed)? {
        End::Stopped => Ok(0),
        End::Undelivered(count) => {
            Err(Failure::failed(format!("{count} results could not be delivered to {server}; their tasks run again")))
        }
        End::NoServer(reason) => {
            let sentence = format!("no server of task lists answers at {server}: {reason}");
            Err(Failure::new(exit::NO_CONTROLLER, sentence))
        }
        End::Refused(reason) => {
            let sentence = format!("the server of task lists at {server} refuses this worker: {reason}");
            Err(Failure::new(exit::REFUSED, sentence))
        }
        End::CannotRun(reason) => Err(Failure::failed(format!("{reason}; its list is open again"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        assert_eq!(address("box:1"), Ok(("box".to_owned(), 1)));
        assert_eq!(address("[::1]:34568"), Ok(("::1".to_owned(), 34568)));
        for text in ["", "box", ":1", "box:", "box:0", "box:70000"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
