//! Asks the supervisor of a STATE_DIR to become this program and to replace its processes, and follows the progress in `service.json`.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::holder;
use super::pinned::{pin, send};
use api::config::Config;
use api::service_file::{FILE, LOCK, Service};
use proc::files::disk_room;
use proc::files::folder_watch::Watch;
use proc::lock::StateLock;
use proc::signals::{SENT_RETIRE, Signals};
use proc::takeover::Successor;
use proc::{clock, readable, takeover};

/// The lock of a process that restarts a service.
const RENEW_LOCK: &str = "service-restart";

/// How long to wait until the service runs again with the earlier program.
const RETURN_MAX: Duration = Duration::from_secs(20);

/// Why a service was not restarted.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    /// No service runs here.
    #[error("no service runs in {} (STATE_DIR); `llts up` starts one", .0.display())]
    None(PathBuf),
    /// The supervisor cannot be signalled from here.
    #[error("the service of this STATE_DIR was started in another container; restart it there")]
    Unseen,
    /// The running version is too old for the request.
    #[error(
        "the running service is of a version that cannot be replaced while it runs; stop it with `llts down`, then start it again with `llts up`: waiting tasks are kept, running ones start again"
    )]
    TooOld,
    /// The system refuses the request.
    #[error("cannot ask process {pid} for a restart: {source}")]
    Refused {
        /// Process id of the supervisor.
        pid: u32,
        /// Error of the system.
        source: io::Error,
    },
    /// The disk has no room for the request.
    #[error("{0}; the service goes on as before. Make room there, and try again")]
    NoRoom(String),
    /// The supervisor has refused.
    #[error("the service goes on as before: {0}")]
    Failed(String),
    /// The supervisor has ended meanwhile.
    #[error("the service has ended meanwhile; its log may tell why: {}", .0.display())]
    Ended(PathBuf),
    /// The new program died as the supervisor, and the earlier one has started the service again.
    #[error(
        "{why}; the service was started again with the earlier program (process {pid}): waiting tasks were kept, running ones start again; see the log: {}", .log.display()
    )]
    Returned {
        /// How the supervisor of the new program has ended.
        why: String,
        /// Process id of the present supervisor.
        pid: u32,
        /// The log of the service.
        log: PathBuf,
    },
    /// A signal ended the wait before the controller was new.
    #[error("left before the restart was done; it goes on, and `llts agents` shows the version of each process")]
    Left,
    /// A later request replaced this one.
    #[error("another restart was requested meanwhile")]
    Overtaken,
}

/// The error for a request file that cannot be written.
pub(super) fn unwritten(state_dir: &Path, error: &io::Error) -> RenewError {
    let why = format!("cannot write the request to {}: {error}", state_dir.display());
    RenewError::NoRoom(disk_room::with_room(why, state_dir))
}

/// Restarts the service with the program at `program`. Returns when the controller is new, or with `wait` when all agents are new as
/// well. During that second wait, a signal ends the wait but not the restart. The returned service shows the progress.
///
/// # Errors
/// [`RenewError`]
pub fn renew(
    config: &Config,
    program: PathBuf,
    id: u64,
    wait: bool,
    signals: &mut Signals,
) -> Result<Service, RenewError> {
    let state_dir = &config.paths.state_dir;
    let found = holder(state_dir).ok_or_else(|| RenewError::None(state_dir.clone()))?;
    let log = || super::log_file(config);
    let ended = || RenewError::Ended(log());
    let (pid, pidfd) = pin(state_dir, LOCK, found)?.ok_or_else(ended)?;
    let refused = |source: io::Error| RenewError::Refused { pid, source };
    // An older version would end on the signal.
    if !Service::read(state_dir).is_some_and(|service| service.renews) {
        return Err(RenewError::TooOld);
    }
    // Until the controller is new, another request would replace this one unseen.
    let lock = StateLock::wait(state_dir, RENEW_LOCK).map_err(|error| refused(io::Error::other(error.to_string())))?;
    let mut watch = Watch::open(|name| name == FILE).map_err(refused)?;
    watch.follow(state_dir).map_err(refused)?;
    let id = format!("{id:016x}");
    Successor { id: id.clone(), program, kept_config: None }
        .write(state_dir, takeover::SUPERVISOR)
        .map_err(|error| unwritten(state_dir, &error))?;
    send(&pidfd, SENT_RETIRE).map_err(|error| refused(error.into()))?;
    let mut followed = follow(state_dir, &id, &pidfd, &mut watch, false, signals)?;
    drop(lock);
    if wait && followed.is_some() {
        followed = follow(state_dir, &id, &pidfd, &mut watch, true, signals)?;
    }
    match followed {
        Some(service) => Ok(service),
        None => Err(match returned(state_dir, pid, &mut watch, signals)? {
            Some(service) => RenewError::Returned {
                why: service
                    .renewal
                    .and_then(|renewal| renewal.failure)
                    .unwrap_or_else(|| "the supervisor has ended".into()),
                pid: service.pid,
                log: log(),
            },
            None => ended(),
        }),
    }
}

/// Waits for the service that starts after the death of the supervisor with this number, and returns it; `None` if the service was
/// stopped or does not come back.
fn returned(
    state_dir: &Path,
    before: u32,
    watch: &mut Watch,
    signals: &mut Signals,
) -> Result<Option<Service>, RenewError> {
    let until = clock::now().mono + RETURN_MAX;
    loop {
        let Some(service) = Service::read(state_dir) else { return Ok(None) };
        let left = until.since(clock::now().mono);
        if service.pid != before || left.is_zero() {
            return Ok(Some(service).filter(|service| service.pid != before));
        }
        readable::wait([watch.as_fd(), signals.as_fd()], Some(left));
        while watch.read().is_some() {}
        if !signals.read().is_empty() {
            return Err(RenewError::Left);
        }
    }
}

/// Waits for the end of a renewal; `None` if the supervisor has ended.
fn follow(
    state_dir: &Path,
    id: &str,
    pidfd: &OwnedFd,
    watch: &mut Watch,
    wait: bool,
    signals: &mut Signals,
) -> Result<Option<Service>, RenewError> {
    let mut begun = false;
    loop {
        let service = Service::read(state_dir);
        let renewal = service.as_ref().and_then(|service| service.renewal.clone());
        if let (Some(service), Some(renewal)) = (service, renewal.filter(|renewal| renewal.request == id)) {
            begun = true;
            if let Some(why) = renewal.failure {
                return Err(RenewError::Failed(why));
            }
            if renewal.controller && (renewal.agents_left == 0 || !wait) {
                return Ok(Some(service));
            }
        } else if begun {
            return Err(RenewError::Overtaken);
        }
        let [ended, signalled, _] = readable::wait([pidfd.as_fd(), signals.as_fd(), watch.as_fd()], None)[..] else {
            unreachable!("one answer for each descriptor")
        };
        while watch.read().is_some() {}
        if ended {
            return Ok(None);
        }
        if signalled && !signals.read().is_empty() {
            // With `wait`, the controller is new already, and only agents are missing.
            return if wait { Ok(Service::read(state_dir)) } else { Err(RenewError::Left) };
        }
    }
}
