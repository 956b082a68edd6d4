//! The worker's guard: passes signals on, and ends the command of a worker that was killed.

use std::os::fd::AsFd as _;
use std::time::Duration;

use super::PromptWorkerError;
use super::runs::Runs;
use crate::shell::clock;
use crate::shell::process::{self, Ward};
use crate::shell::readable;
use crate::shell::signals::{STOP, Signal, Signals};
use crate::types::ExitCode;

/// For what SIGKILL has not ended yet. Only what runs as another user, or waits for a device, outlives it.
const DEATH_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits for the end of the worker; returns the exit code for both.
pub(super) fn watch(mut ward: Ward, runs: &Runs) -> Result<u8, PromptWorkerError> {
    // SIGCHLD tells of every orphan that ends.
    let mut signals = Signals::install(&[&STOP[..], &[Signal::SIGCHLD]].concat())?;
    let exit = loop {
        if let Some(exit) = ward.try_wait()? {
            break exit;
        }
        readable::wait([ward.as_fd(), signals.as_fd()], None);
        for _ in signals.read().into_iter().filter(|signal| *signal != Signal::SIGCHLD) {
            ward.signal(process::Signal::TERM);
        }
    };
    let ExitCode(code) = exit;
    if let Ok(code) = u8::try_from(code) {
        return Ok(code);
    }
    log::error!("the worker was killed: ending its command");
    end_orphans(&ward, &mut signals);
    runs.reopen()?.sweep();
    // As shells have it.
    Ok(u8::try_from(128 + code.unsigned_abs()).unwrap_or(u8::MAX))
}

/// Kills what the worker has left, and again after each death, for that may have let something new in.
fn end_orphans(ward: &Ward, signals: &mut Signals) {
    let deadline = clock::now().mono + DEATH_TIMEOUT;
    while !ward.end_orphans() {
        let left = deadline.since(clock::now().mono);
        if left.is_zero() {
            log::error!("processes of the command are left that cannot be ended");
            return;
        }
        readable::is_readable(signals.as_fd(), Some(left));
        signals.read();
    }
}
