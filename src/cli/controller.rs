//! `llts controller`: a controller in the foreground, until SIGTERM or Ctrl-C.

use super::Session;
use super::exit::{self, Failure};
use crate::shell::controller::{self, ControllerError};
use crate::shell::lock::StateLock;
use crate::shell::logging::{self, LogError};
use crate::shell::privacy;

pub(super) fn run(session: &Session) -> Result<u8, Failure> {
    session.check_transport()?;
    privacy::keep_files_private();
    let config = &session.config;
    match logging::init(&config.log, Some(&config.log.controller_file())) {
        // Two controllers of one folder also share the log; the lock of the folder gives the better message.
        Err(LogError::InUse(_)) if StateLock::holder(&config.paths.state_dir, "controller").is_some() => {}
        Err(error) => return Err(Failure::failed(error)),
        Ok(()) => {}
    }
    controller::run(config).map_err(|error| {
        let is_usage = matches!(&error, ControllerError::Socket(error) if error.is_about_keys());
        Failure { exit: if is_usage { exit::USAGE } else { exit::FAILED }, ..logged(error) }
    })?;
    Ok(0)
}

/// A failure that is also written to the log file.
pub(super) fn logged(error: impl std::fmt::Display) -> Failure {
    log::error!("{error}");
    Failure::failed(error)
}
