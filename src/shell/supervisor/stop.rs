//! Ends the service of a STATE_DIR, also what is left of one whose supervisor was killed.
//!
//! The end of the supervisor proves nothing: it may have been killed a moment ago, or while it was stopping. So the service has
//! stopped only when nobody holds its lock, and a sweep under that lock has found nothing that lives: first the controller and
//! the agents, by the mark of the service, then, now that their agents are dead, the runs, by their records.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::ephemeral_dir::{EPHEMERAL_STATE, EPHEMERAL_WORK, EphemeralDir};
use super::{LOCK, MARK, holder, service, stop_max};
use crate::config::Config;
use crate::shell::agent::{self, AgentError};
use crate::shell::clock;
use crate::shell::lock::{Holder, LockError, StateLock};
use crate::shell::process::{Cookie, Ended, ProcessId, sweep_by_cookie};
use crate::shell::readable;
use crate::shell::removal;

/// The lock of whoever stops a service. Its holder also takes the lock of the service for a moment; without this one, a second
/// `llts down` would take the first for the supervisor.
const STOP_LOCK: &str = "service-stop";

/// How many supervisors are stopped, each started while the one before it was being stopped, until that is given up.
const SUPERVISORS_MAX: u32 = 10;

/// How long the end of the service is waited for at the least.
const PATIENCE_MIN: Duration = Duration::from_secs(60);

/// How long processes that were killed may take to end.
const DEATHS_MAX: Duration = Duration::from_secs(10);

/// What was done. The default is that nothing ran here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// The supervisor with this number was told to end, and has ended.
    pub supervisor: Option<u32>,
    /// This many processes of the service were left without a supervisor, and were ended.
    pub remains: u32,
}

/// Why a service could not be stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The lock does not tell.
    #[error("something runs here, but its process is not to be seen; stop it in the container where it was started")]
    Unseen,
    /// The system refused the signal.
    #[error("cannot signal process {pid}: {source}")]
    Refused {
        /// The supervisor.
        pid: u32,
        /// What the system said.
        source: Errno,
    },
    /// It is still there.
    #[error("process {pid} has not ended after {} s; see its log, then end it with kill -9 {pid} and run `llts down` again", .patience.as_secs())]
    StillThere {
        /// The supervisor.
        pid: u32,
        /// How long it was waited for.
        patience: Duration,
    },
    /// Nobody can say what runs here, or it is started again and again.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A folder of a hosted service is not what its maker has left.
    #[error("cannot use {}: {source}", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said, or what is in the way.
        source: io::Error,
    },
    /// The runs of dead agents cannot be looked at.
    #[error("cannot end what the agents of this service have left: {0}")]
    Runs(#[from] AgentError),
    /// Processes that SIGKILL has not ended.
    #[error("these processes of the service do not end: {}; run `llts down` again when they can, as their user or as root", list(.0))]
    Left(Vec<ProcessId>),
}

/// Asks the supervisor to end, waits until it has, and ends what it has left, if anything. Nothing of the service lives then.
///
/// # Errors
/// [`StopError`]
pub fn stop(config: &Config) -> Result<Stopped, StopError> {
    let ask = |pid, pidfd: &OwnedFd| match pidfd_send_signal(pidfd, Signal::TERM) {
        // One that is stopped cannot act on it.
        Ok(()) => pidfd_send_signal(pidfd, Signal::CONT).or(Ok(())),
        Err(Errno::SRCH) => Ok(()),
        Err(source) => Err(StopError::Refused { pid, source }),
    };
    end(config, ask)
}

/// The duty of the guard of a run that hosts a service. The supervisor ends by itself when the run is gone; if it was killed
/// too, all that is left of the service is ended. Removes the folder of the service last, because its records tell what that is.
/// Returns how many processes were ended.
///
/// # Errors
/// [`StopError`], when something of it still lives: then the folder stays.
pub fn end_guest(config: &Config, folder: &Path) -> Result<u32, StopError> {
    for name in [EPHEMERAL_STATE, EPHEMERAL_WORK] {
        let path = folder.join(name);
        match removal::open_uncovered(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(StopError::Folder { path, source }),
            Ok(_) | Err(_) => {}
        }
    }
    let stopped = end(config, |_, _| Ok(()))?;
    if stopped.remains > 0 {
        log::warn!("a hosted service was killed: ended {} of its processes", stopped.remains);
    }
    drop(EphemeralDir::new(folder));
    Ok(stopped.remains)
}

fn end(config: &Config, ask: impl Fn(u32, &OwnedFd) -> Result<(), StopError>) -> Result<Stopped, StopError> {
    let state_dir = &config.paths.state_dir;
    let mut supervisor = None;
    if !state_dir.try_exists().map_err(|source| LockError::Io { path: state_dir.clone(), source })? {
        return Ok(Stopped::default());
    }
    let _stop = StateLock::wait(state_dir, STOP_LOCK)?;
    let mut supervisors = 0..SUPERVISORS_MAX;
    let _lock = loop {
        if let Some(found) = holder(state_dir)
            && let Some((pid, pidfd)) = pin(state_dir, found)?
        {
            ask(pid, &pidfd)?;
            wait_for_end(config, pid, &pidfd)?;
            supervisor = Some(pid);
        }
        match StateLock::acquire(state_dir, LOCK) {
            // Another one was started meanwhile.
            Err(LockError::Held { .. }) if supervisors.next().is_some() => {}
            acquired => break acquired?,
        }
    };
    let remains = end_all(config)?;
    // One that was killed has left it.
    let _ = service::remove(state_dir);
    Ok(Stopped { supervisor, remains })
}

/// The supervisor that its lock names; `None` when it is gone.
fn pin(state_dir: &Path, found: Holder) -> Result<Option<(u32, OwnedFd)>, StopError> {
    let pid = found.pid.ok_or(StopError::Unseen)?;
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(StopError::Unseen)?;
    match pidfd_open(raw, PidfdFlags::empty()) {
        // The number may have gone to another process between the look and the descriptor; who still holds the lock has it.
        Ok(pidfd) if holder(state_dir) == Some(found) => Ok(Some((pid, pidfd))),
        Ok(_) | Err(Errno::SRCH) => Ok(None),
        Err(source) => Err(StopError::Refused { pid, source }),
    }
}

fn wait_for_end(config: &Config, pid: u32, pidfd: &OwnedFd) -> Result<(), StopError> {
    let patience = PATIENCE_MIN.max(2 * stop_max(config) + Duration::from_secs(10));
    let until = clock::now().mono + patience;
    loop {
        let left = until.since(clock::now().mono);
        match readable::is_readable(pidfd, Some(left)) {
            true => return Ok(()),
            false if left.is_zero() => return Err(StopError::StillThere { pid, patience }),
            false => {}
        }
    }
}

/// Ends all that is left, and tries that for a while: a process may be held up in the kernel. How many have ended.
fn end_all(config: &Config) -> Result<u32, StopError> {
    let until = clock::now().mono + DEATHS_MAX;
    let mut killed = 0;
    loop {
        // It waits for those that it kills: this is no busy loop.
        let ended = sweep(config)?;
        killed += ended.killed;
        match ended.left {
            left if left.is_empty() => return Ok(killed),
            left if clock::now().mono >= until => return Err(StopError::Left(left)),
            _ => {}
        }
    }
}

/// Ends all processes of earlier services of this STATE_DIR. Call it under the lock of the service, so that it meets no start.
///
/// # Errors
/// When the runs cannot be looked at. What belongs to the service itself is ended by then.
pub(super) fn sweep(config: &Config) -> Result<Ended, AgentError> {
    let mark = mark(&config.paths.state_dir);
    let mut ended = sweep_by_cookie(&Cookie::new([format!("{MARK}={mark}")]));
    ended += agent::sweep_after_death(config)?;
    Ok(ended)
}

/// The value of the mark: the same for every way to write the folder.
pub(super) fn mark(state_dir: &Path) -> String {
    let path = state_dir.canonicalize().unwrap_or_else(|_| state_dir.to_owned());
    path.to_string_lossy().into_owned()
}

/// Processes, for people: `12 (sleep), 13 (sh)`.
fn list(processes: &[ProcessId]) -> String {
    let name = |process: &ProcessId| fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    let all: Vec<String> =
        processes.iter().map(|process| format!("{process} ({})", name(process).trim_end())).collect();
    all.join(", ")
}
