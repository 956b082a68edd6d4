//! Ends the service of a STATE_DIR, including the remains of one whose supervisor was killed.
//!
//! The end of the supervisor proves nothing: it may have been killed a moment ago, or while it was stopping. So the service
//! has stopped only when no process holds its lock, and a sweep under that lock has found no live process: first the
//! controller and the agents, by the mark of the service, then, after the death of their agents, the runs, by their
//! records.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::Signal;

use super::pinned::{pin, send};
use super::{holder, stop_max};
use agent::process::AgentError;
use api::config::Config;
use api::service_file;
use api::service_file::LOCK;
use base::path_text;
use proc::lock::{LockError, StateLock};
use proc::process::{Cookie, Ended, ProcessId, sweep_by_cookie};
use proc::supervised::MARK;
use proc::{clock, readable};

/// The lock of a process that stops a service. Its holder also takes the lock of the service for a moment; without this
/// one, a second `llts down` would mistake the first for the supervisor.
const STOP_LOCK: &str = "service-stop";

/// The lock of `llts up --standby` while another home leads the queue in the server of STORE.
pub const STANDBY_LOCK: &str = "standby";

/// How often a stop starts again because another supervisor was started meanwhile, before it gives up.
const SUPERVISORS_MAX: u32 = 10;

/// Minimum time to wait for the end of the service.
const PATIENCE_MIN: Duration = Duration::from_secs(60);

/// Time limit for the end of killed processes.
const DEATHS_MAX: Duration = Duration::from_secs(10);

/// The result of a stop. The default is that no service ran here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Process id of the supervisor that was asked to end, and has ended.
    pub supervisor: Option<u32>,
    /// Number of processes that had lost their supervisor and were ended.
    pub remains: u32,
    /// Process id of the ended `llts up --standby` that waited here to lead a queue in a server.
    pub standby: Option<u32>,
}

/// Why a service could not be stopped.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The holder of the lock is unknown.
    #[error(
        "a service holds this STATE_DIR, but its process is not visible from here; stop it in the container where it was started"
    )]
    Unseen,
    /// The system refused the signal.
    #[error("cannot signal process {pid}: {source}")]
    Refused {
        /// Process id of the supervisor.
        pid: u32,
        /// Error of the system.
        source: Errno,
    },
    /// It has not ended in time.
    #[error("process {pid} has not ended after {} s; see its log, then end it with kill -9 {pid} and run `llts down` again", .patience.as_secs())]
    StillThere {
        /// Process id of the supervisor.
        pid: u32,
        /// How long the wait for its end lasted.
        patience: Duration,
    },
    /// The lock cannot be checked, or the service is started again and again.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A folder of an ephemeral service is not as its maker leaves it.
    #[error("cannot use {}: {source}", .path.display())]
    Folder {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the system, or the obstacle.
        source: io::Error,
    },
    /// The runs of dead agents cannot be checked.
    #[error("cannot end what the agents of this service have left: {0}")]
    Runs(#[from] AgentError),
    /// These processes survive SIGKILL.
    #[error("these processes of the service do not end: {}; run `llts down` again when they can, as their user or as root", list(.0))]
    Left(Vec<ProcessId>),
}

/// Asks the supervisor to end, waits until it has, and ends its remains, if any. No process of the service is alive
/// afterwards.
///
/// # Errors
/// [`StopError`]
pub fn stop(config: &Config) -> Result<Stopped, StopError> {
    // The standby goes first: it would start a service.
    let standby = end_standby(config)?;
    let stopped = end(config, terminate)?;
    Ok(Stopped { standby, ..stopped })
}

/// Ends the `llts up --standby` that waits here to lead the queue.
fn end_standby(config: &Config) -> Result<Option<u32>, StopError> {
    let state_dir = &config.paths.state_dir;
    let Some(found) = StateLock::holder(state_dir, STANDBY_LOCK) else { return Ok(None) };
    let Some((pid, pidfd)) = pin(state_dir, STANDBY_LOCK, found)? else { return Ok(None) };
    terminate(pid, &pidfd)?;
    wait_for_end(config, pid, &pidfd)?;
    Ok(Some(pid))
}

fn terminate(pid: u32, pidfd: &OwnedFd) -> Result<(), StopError> {
    send(pidfd, Signal::TERM).map_err(|source| StopError::Refused { pid, source })?;
    // A stopped process cannot act on the signal.
    let _ = send(pidfd, Signal::CONT);
    Ok(())
}

/// Asks the supervisor to end with `ask`, waits for its end, and ends its remaining processes.
pub(super) fn end(config: &Config, ask: impl Fn(u32, &OwnedFd) -> Result<(), StopError>) -> Result<Stopped, StopError> {
    let state_dir = &config.paths.state_dir;
    let mut supervisor = None;
    if !state_dir.try_exists().map_err(|source| LockError::Io { path: state_dir.clone(), source })? {
        return Ok(Stopped::default());
    }
    let _stop = StateLock::wait(state_dir, STOP_LOCK)?;
    let mut supervisors = 0..SUPERVISORS_MAX;
    let _lock = loop {
        if let Some(found) = holder(state_dir)
            && let Some((pid, pidfd)) = pin(state_dir, LOCK, found)?
        {
            ask(pid, &pidfd)?;
            wait_for_end(config, pid, &pidfd)?;
            supervisor = Some(pid);
        }
        match StateLock::acquire(state_dir, LOCK) {
            // Another supervisor was started meanwhile.
            Err(LockError::Held { .. }) if supervisors.next().is_some() => {}
            acquired => break acquired?,
        }
    };
    let remains = end_all(config)?;
    // A killed service leaves its service file behind.
    let _ = service_file::remove(state_dir);
    Ok(Stopped { supervisor, remains, standby: None })
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

/// Ends all remains, with retries for a while, because a process may hang in the kernel. Returns the number of ended ones.
fn end_all(config: &Config) -> Result<u32, StopError> {
    let until = clock::now().mono + DEATHS_MAX;
    let mut killed = 0;
    loop {
        // The sweep waits for the processes that it kills, so this is not a busy loop.
        let ended = sweep(config)?;
        killed += ended.killed;
        match ended.left {
            left if left.is_empty() => return Ok(killed),
            left if clock::now().mono >= until => return Err(StopError::Left(left)),
            _ => {}
        }
    }
}

/// Ends all processes of earlier services of this STATE_DIR. Call it under the lock of the service, so that no service starts meanwhile.
///
/// # Errors
/// When the runs cannot be checked. The processes of the service itself have been ended by then.
pub(super) fn sweep(config: &Config) -> Result<Ended, AgentError> {
    let mark = mark(&config.paths.state_dir);
    let mut ended = sweep_by_cookie(&Cookie::new([format!("{MARK}={mark}")]));
    ended += agent::process::sweep_after_death(config)?;
    Ok(ended)
}

/// The value of the mark: the same for every spelling of the folder.
pub(super) fn mark(state_dir: &Path) -> String {
    let path = state_dir.canonicalize().unwrap_or_else(|_| state_dir.to_owned());
    path_text(&path)
}

/// Processes, for people: `12 (sleep), 13 (sh)`.
fn list(processes: &[ProcessId]) -> String {
    let name = |process: &ProcessId| fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    let all: Vec<String> =
        processes.iter().map(|process| format!("{process} ({})", name(process).trim_end())).collect();
    all.join(", ")
}
