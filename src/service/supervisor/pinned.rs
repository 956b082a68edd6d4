//! The process that holds a lock, pinned by a descriptor: its number may be that of another one as soon as it has ended.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{RenewError, StopError};
use proc::lock::{Holder, StateLock};

/// Why the holder of a lock cannot be pinned.
pub(super) enum Unpinned {
    /// It is in another container.
    Unseen,
    /// The system refuses.
    Refused { pid: u32, source: Errno },
}

impl From<Unpinned> for RenewError {
    fn from(why: Unpinned) -> Self {
        match why {
            Unpinned::Unseen => Self::Unseen,
            Unpinned::Refused { pid, source } => Self::Refused { pid, source: source.into() },
        }
    }
}

impl From<Unpinned> for StopError {
    fn from(why: Unpinned) -> Self {
        match why {
            Unpinned::Unseen => Self::Unseen,
            Unpinned::Refused { pid, source } => Self::Refused { pid, source },
        }
    }
}

/// Pins the process that was found to hold a lock; `None` when it has gone.
pub(super) fn pin(state_dir: &Path, what: &str, found: Holder) -> Result<Option<(u32, OwnedFd)>, Unpinned> {
    let pid = found.pid.ok_or(Unpinned::Unseen)?;
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Unpinned::Unseen)?;
    match pidfd_open(raw, PidfdFlags::empty()) {
        // The number may have been reused before the pidfd was opened. A process that still holds the lock is the right one.
        Ok(pidfd) if StateLock::holder(state_dir, what) == Some(found) => Ok(Some((pid, pidfd))),
        Ok(_) | Err(Errno::SRCH) => Ok(None),
        Err(source) => Err(Unpinned::Refused { pid, source }),
    }
}

/// Signals a pinned process. One that has just ended is no error: its descriptor shows it.
pub(super) fn send(pidfd: &OwnedFd, signal: Signal) -> Result<(), Errno> {
    match pidfd_send_signal(pidfd, signal) {
        Err(Errno::SRCH) => Ok(()),
        sent => sent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As when a service ends between the look at its lock and the signal.
    #[test]
    fn a_holder_that_has_ended_is_none_and_hears_nothing() {
        let place = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        child.wait().unwrap();
        let found = Holder { pid: Some(child.id()) };
        assert!(matches!(pin(place.path(), "service", found), Ok(None)));
        send(&pidfd, Signal::TERM).unwrap();
    }
}
