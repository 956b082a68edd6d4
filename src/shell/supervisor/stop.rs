//! Ends the service of a STATE_DIR, also what is left of one whose supervisor was killed.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::turn::GuestFolder;
use super::{LOCK, MARK, holder, service, stop_max};
use crate::config::Config;
use crate::shell::clock;
use crate::shell::lock::{Holder, StateLock};
use crate::shell::process::{Cookie, sweep_by_cookie};

/// How long the end of the service is waited for at the least.
const PATIENCE_MIN: Duration = Duration::from_secs(60);

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// Nothing ran here.
    Nothing,
    /// The supervisor with this number has ended, and all that it ran.
    Service(u32),
    /// The supervisor was gone; this many processes that it had left were ended.
    Remains(u32),
}

/// Why a service could not be stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The lock does not tell.
    #[error("something runs here, but its process is not to be seen; stop it in the container where it was started")]
    Unseen,
    /// The system refused the signal.
    #[error("cannot signal process {pid}: {cause}")]
    Refused {
        /// The supervisor.
        pid: u32,
        /// What the system said.
        cause: Errno,
    },
    /// It is still there.
    #[error("process {pid} has not ended after {} s; see its log, then end it with kill -9 {pid} and run `llts down` again", .patience.as_secs())]
    StillThere {
        /// The supervisor.
        pid: u32,
        /// How long it was waited for.
        patience: Duration,
    },
}

/// Asks the supervisor to end and waits until it has.
///
/// # Errors
/// [`StopError`]
pub fn stop(config: &Config) -> Result<Stopped, StopError> {
    let state_dir = &config.paths.state_dir;
    let Some(found) = holder(state_dir) else { return Ok(end_remains(state_dir)) };
    let (pid, pidfd) = match pin(state_dir, found)? {
        Pinned::Gone(pid) => return Ok(Stopped::Service(pid)),
        Pinned::Running(pid, pidfd) => (pid, pidfd),
    };
    match pidfd_send_signal(&pidfd, Signal::TERM) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(cause) => return Err(StopError::Refused { pid, cause }),
    }
    wait_for_end(config, pid, &pidfd)
}

/// The duty of the guard of a run that hosts a service. The supervisor ends by itself when the run is gone; if it was killed
/// too, all that is left of the service is ended. Removes the folder of the service.
///
/// # Errors
/// [`StopError`], when the supervisor does not end: then the folder stays.
pub fn end_guest(config: &Config, folder: &Path) -> Result<(), StopError> {
    let state_dir = &config.paths.state_dir;
    if let Some(found) = holder(state_dir)
        && let Pinned::Running(pid, pidfd) = pin(state_dir, found)?
    {
        wait_for_end(config, pid, &pidfd)?;
    }
    if let Stopped::Remains(ended) = end_remains(state_dir) {
        log::warn!("a hosted service was killed: ended {ended} of its processes");
    }
    drop(GuestFolder::new(folder));
    Ok(())
}

/// A supervisor, as its lock names it.
enum Pinned {
    Running(u32, OwnedFd),
    Gone(u32),
}

fn pin(state_dir: &Path, found: Holder) -> Result<Pinned, StopError> {
    let pid = found.pid.ok_or(StopError::Unseen)?;
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(StopError::Unseen)?;
    match pidfd_open(raw, PidfdFlags::empty()) {
        // The number may have gone to another process between the look and the descriptor; who still holds the lock has it.
        Ok(pidfd) if holder(state_dir) == Some(found) => Ok(Pinned::Running(pid, pidfd)),
        Ok(_) | Err(Errno::SRCH) => Ok(Pinned::Gone(pid)),
        Err(cause) => Err(StopError::Refused { pid, cause }),
    }
}

fn wait_for_end(config: &Config, pid: u32, pidfd: &OwnedFd) -> Result<Stopped, StopError> {
    let patience = PATIENCE_MIN.max(2 * stop_max(config) + Duration::from_secs(10));
    let until = clock::now().mono + patience;
    loop {
        let left = until.since(clock::now().mono);
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(1..) => return Ok(Stopped::Service(pid)),
            _ if left.is_zero() => return Err(StopError::StillThere { pid, patience }),
            _ => {}
        }
    }
}

/// Ends what is left of a service whose supervisor was killed. Under its lock, so that it meets no start.
fn end_remains(state_dir: &Path) -> Stopped {
    if !state_dir.is_dir() {
        return Stopped::Nothing;
    }
    let Ok(_lock) = StateLock::acquire(state_dir, LOCK) else { return Stopped::Nothing };
    let (ended, left) = sweep(state_dir);
    // What could not be ended is found again by the next start.
    if left == 0 {
        let _ = service::remove(state_dir);
    }
    if ended == 0 { Stopped::Nothing } else { Stopped::Remains(ended) }
}

/// Ends all processes of earlier services of this STATE_DIR: how many have ended, and how many have not.
pub(super) fn sweep(state_dir: &Path) -> (u32, u32) {
    let ended = sweep_by_cookie(&Cookie::new([format!("{MARK}={}", mark(state_dir))]));
    (ended.killed, u32::try_from(ended.left.len()).unwrap_or(u32::MAX))
}

/// The value of the mark: the same for every way to write the folder.
pub(super) fn mark(state_dir: &Path) -> String {
    let path = state_dir.canonicalize().unwrap_or_else(|_| state_dir.to_owned());
    path.to_string_lossy().into_owned()
}
