//! The first resources of a supervisor, whether it starts a service or succeeds an earlier program in its process.

use nix::sys::signal::Signal;

use super::{Options, SupervisorError};
use crate::supervisor::handover::Handover;
use api::config::Config;
use api::service_file::{LOCK, log_file};
use api::trust;
use api::trust::Part;
use proc::limits::raise_descriptor_limit;
use proc::lock::StateLock;
use proc::process::become_subreaper;
use proc::signals::{RETIRE, STOP, Signals};
use proc::{logging, takeover};

/// Takes the signals, the lock and the log, and the state of the earlier program in this process, if there is one. That program continues
/// if this one fails here.
pub(super) fn begin(
    config: &Config,
    options: &Options,
) -> Result<(Signals, StateLock, Option<Handover>), SupervisorError> {
    let prepare = || -> Result<Signals, SupervisorError> {
        let signals = Signals::install(&[&STOP[..], &[RETIRE, Signal::SIGCHLD]].concat())?;
        become_subreaper()?;
        raise_descriptor_limit()?;
        trust::check(config, Part::Supervisor)?;
        Ok(signals)
    };
    let open_log = || logging::init(&config.log, Some(&log_file(config)));
    let Some(number) = options.handover else {
        let signals = prepare()?;
        let lock = StateLock::acquire(&config.paths.state_dir, LOCK)?;
        open_log()?;
        return Ok((signals, lock, None));
    };
    let handover: Handover = takeover::state(number)?;
    let prepared = prepare().and_then(|signals| match open_log() {
        // This program takes its service back after a failed restart: running without a log is better than not running.
        Err(_) if handover.failure.is_some() => Ok(signals),
        opened => Ok(opened.map(|()| signals)?),
    });
    let signals = match prepared {
        Ok(signals) => signals,
        Err(error) => {
            let failed = handover.go_back(error.to_string());
            return Err(SupervisorError::Failed(format!("{error}; nor can the program before it continue: {failed}")));
        }
    };
    handover.take_stderr()?;
    Ok((signals, StateLock::adopt(handover.lock()?), Some(handover)))
}
