//! `llts controller`: a controller in the foreground, until SIGTERM or Ctrl-C.

use clap::Args;

use crate::compose::HOSTS;
use api::config::Config;
use api::trust;
use api::trust::Part;
use controller::process::ControllerError;
use proc::files::privacy;
use proc::lock::StateLock;
use proc::logging::LogError;
use proc::{logging, port_holder};
use term::exit;
use term::exit::Failure;
use term::session::Session;

#[derive(Args, Debug)]
pub(super) struct ControllerArgs {
    /// Continue as the successor of the program that ran in this process, with the state in this descriptor
    #[arg(long, value_name = "FD", hide = true)]
    handover: Option<i32>,
}

pub(super) fn run(session: &Session, args: &ControllerArgs) -> Result<u8, Failure> {
    privacy::keep_files_private();
    let config = &session.config;
    // Before the first file is opened.
    trust::check(config, Part::Controller).map_err(Failure::failed)?;
    match logging::init(&config.log, Some(&config.log.controller_file())) {
        // Two controllers of one folder also share the log; the lock of the folder gives the better message.
        Err(LogError::InUse(_)) if StateLock::holder(&config.paths.state_dir, controller::process::LOCK).is_some() => {}
        Err(error) => return Err(Failure::failed(error)),
        Ok(()) => {}
    }
    controller::process::run(config, args.handover, &session.reload(), session.own_program()?, &HOSTS).map_err(
        |error| {
            let is_usage = matches!(&error, ControllerError::Socket(error) if error.is_about_keys());
            let holder = holder_of_port(&error, config);
            Failure { exit: if is_usage { exit::USAGE } else { exit::FAILED }, ..logged(format!("{error}{holder}")) }
        },
    )?;
    Ok(0)
}

/// The process that holds the port that this controller cannot bind, as the end of a sentence.
fn holder_of_port(error: &ControllerError, config: &Config) -> String {
    let ControllerError::Socket(error) = error else { return String::new() };
    let addresses = [config.controller.requests, config.controller.broadcasts].into_iter().flatten();
    let sentence = error.to_string();
    let taken = addresses.filter(|_| error.is_taken()).find(|address| sentence.contains(&format!("tcp://{address}:")));
    taken.and_then(|address| port_holder::of(address.port())).map_or_else(String::new, |holder| {
        format!("; {holder}; set CONTROLLER_REP_PORT and CONTROLLER_PUB_PORT to other ports here, or to \"off\" for the unix socket alone")
    })
}

/// A failure that is also written to the log file.
pub(super) fn logged(error: impl std::fmt::Display) -> Failure {
    log::error!("{error}");
    Failure::failed(error)
}
