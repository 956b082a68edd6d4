//! The worker's guard: passes signals on, and ends the command of a worker that was killed.

use std::os::fd::AsFd as _;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::PromptWorkerError;
use super::runs::Runs;
use crate::shell::process::{self, Ward};
use crate::shell::signals::{STOP, Signals};
use crate::types::ExitCode;

/// Between two looks at what SIGKILL has not ended yet, in milliseconds, and how many: ten seconds.
const LOOK_MILLIS: u16 = 100;
const LOOKS_MAX: u32 = 100;

/// Waits for the end of the worker; returns the exit code for both.
pub(super) fn watch(mut ward: Ward, runs: &Runs) -> Result<u8, PromptWorkerError> {
    let mut signals = Signals::install(&STOP)?;
    let exit = loop {
        if let Some(exit) = ward.try_wait()? {
            break exit;
        }
        let mut fds = [PollFd::new(ward.as_fd(), PollFlags::POLLIN), PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        // EINTR: the next turn sees what it was.
        let _ = poll(&mut fds, PollTimeout::NONE);
        for _ in signals.read() {
            ward.signal(process::Signal::TERM);
        }
    };
    let ExitCode(code) = exit;
    if let Ok(code) = u8::try_from(code) {
        return Ok(code);
    }
    log::error!("the worker was killed: ending its command");
    for _ in 0..LOOKS_MAX {
        if ward.end_orphans() {
            break;
        }
        let _ = poll(&mut [], PollTimeout::from(LOOK_MILLIS));
    }
    runs.reopen()?.sweep();
    // As shells have it.
    Ok(u8::try_from(128 + code.unsigned_abs()).unwrap_or(u8::MAX))
}
