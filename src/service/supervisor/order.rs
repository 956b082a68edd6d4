//! Changes that a user makes to a running service: more or fewer agents, and whether it ends without work.
//!
//! `llts up` writes an order into STATE_DIR and signals the supervisor. In `service.json`, the supervisor names the order that it has
//! carried out: an increase of agents counts when all are ready, a decrease at once. A lock keeps two commands from starting or changing
//! a service at the same time.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::pinned::{pin, send};
use super::renew::unwritten;
use super::{RenewError, SupervisorError, lasting_holder, log_file};
use api::config::Config;
use api::service_file::{FILE, LOCK, Service};
use api::trust;
use api::trust::Part;
use controller::process::LOCK as CONTROLLER_LOCK;
use proc::files::folder_watch::Watch;
use proc::files::{disk_room, state_file};
use proc::lock::{LockError, StateLock};
use proc::one_job::OneJob;
use proc::readable;
use proc::signals::{SENT_RETIRE, Signals};

/// The lock of a process that starts or changes a service.
const START_LOCK: &str = "service-start";

/// The name of the order in STATE_DIR.
const ORDER: &str = "order.json";

/// Free space that an agent needs in STATE_DIR to become ready. With less, its start fails again and again.
const AGENT_BYTES_MIN: u64 = 64 << 10;

/// The wanted state of a running service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The id of the request, which the answer repeats.
    id: String,
    /// The new number of agents, if it changes.
    pub agents: Option<u16>,
    /// Whether the service stays up without work from now on.
    pub is_lasting: bool,
}

impl Order {
    /// An order for a new number of agents, if that changes, and for a service that stays up without work.
    #[must_use]
    pub const fn new(agents: Option<u16>, is_lasting: bool) -> Self {
        Self { id: String::new(), agents, is_lasting }
    }

    /// Takes the pending order from its file, if there is one.
    pub(super) fn take(state_dir: &Path) -> io::Result<Option<Self>> {
        let path = state_dir.join(ORDER);
        let order = state_file::read(&path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            removed => removed.and(order.map(Some)),
        }
    }

    /// The id of the request.
    pub(super) fn id(&self) -> &str {
        &self.id
    }
}

/// Waits until no other command starts or changes the service, and keeps others from doing so.
///
/// # Errors
/// When another user controls a folder, or STATE_DIR cannot be made or written.
pub fn starting(config: &Config) -> Result<StateLock, SupervisorError> {
    // Before the first file is made there.
    trust::check(config, Part::Supervisor)?;
    let state_dir = &config.paths.state_dir;
    let failed = |source| LockError::Io { path: state_dir.to_owned(), source };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(state_dir).map_err(failed)?;
    Ok(StateLock::wait(state_dir, START_LOCK)?)
}

/// Waits while a service is starting or stopping. Returns the service that is up, or `None` if there is none.
///
/// # Errors
/// When the system refuses a watch, or a signal ends the wait.
pub fn settled(config: &Config, signals: &mut Signals) -> Result<Option<Service>, RenewError> {
    let state_dir = &config.paths.state_dir;
    let Some((mut watch, pidfd)) = watched(state_dir)? else { return Ok(None) };
    loop {
        if let Some(service) = Service::read(state_dir) {
            return Ok(Some(service));
        }
        if wait(&pidfd, &mut watch, signals)? {
            return Ok(None);
        }
    }
}

/// Waits until no service runs with this STATE_DIR, on this machine or another one that shares it. `false` if a signal ends the wait.
///
/// # Errors
/// When the locks cannot be checked, or threads have run out.
pub fn stand_by(state_dir: &Path, signals: &mut Signals) -> Result<bool, LockError> {
    // A supervisor that was killed leaves a controller that is about to end.
    for what in [LOCK, CONTROLLER_LOCK] {
        let dir = state_dir.to_owned();
        let freed = OneJob::start("standby", move || StateLock::wait_free(&dir, what));
        let freed = freed.map_err(|source| LockError::Io { path: state_dir.to_owned(), source })?;
        readable::wait([freed.as_fd(), signals.as_fd()], None);
        if !readable::is_readable(&freed, Some(Duration::ZERO)) {
            signals.read();
            return Ok(false);
        }
        freed.outcome().transpose()?;
    }
    Ok(true)
}

/// Sends an order to the running service, and returns the service as it is once the order has been carried out.
///
/// # Errors
/// [`RenewError`]
pub fn order(config: &Config, id: u64, order: &Order, signals: &mut Signals) -> Result<Service, RenewError> {
    let state_dir = &config.paths.state_dir;
    let none = || RenewError::None(state_dir.clone());
    let service = Service::read(state_dir).ok_or_else(none)?;
    let refused = |source| RenewError::Refused { pid: service.pid, source };
    let (mut watch, pidfd) = watched(state_dir)?.ok_or_else(none)?;
    if !service.takes_orders {
        return Err(RenewError::TooOld);
    }
    let order = Order { id: format!("{id:016x}"), ..order.clone() };
    let is_full = disk_room::free(state_dir).is_some_and(|room| room < AGENT_BYTES_MIN);
    if is_full && order.agents.is_some_and(|agents| agents > service.agents) {
        return Err(RenewError::NoRoom(disk_room::with_room("no more agents can start".to_owned(), state_dir)));
    }
    state_file::replace(&state_dir.join(ORDER), &order).map_err(|error| unwritten(state_dir, &error))?;
    send(&pidfd, SENT_RETIRE).map_err(|error| refused(error.into()))?;
    loop {
        if let Some(service) = Service::read(state_dir).filter(|service| service.order.as_ref() == Some(&order.id)) {
            return Ok(service);
        }
        if wait(&pidfd, &mut watch, signals)? {
            return Err(RenewError::Ended(log_file(config)));
        }
    }
}

/// A watch of `service.json` and the supervisor; `None` if there is no supervisor.
fn watched(state_dir: &Path) -> Result<Option<(Watch, OwnedFd)>, RenewError> {
    let Some(found) = lasting_holder(state_dir) else { return Ok(None) };
    let Some((pid, pidfd)) = pin(state_dir, LOCK, found)? else { return Ok(None) };
    let refused = |source| RenewError::Refused { pid, source };
    let mut watch = Watch::open(|name| name == FILE).map_err(refused)?;
    watch.follow(state_dir).map_err(refused)?;
    Ok(Some((watch, pidfd)))
}

/// Waits for a change of `service.json`; true if the supervisor has ended.
fn wait(pidfd: &OwnedFd, watch: &mut Watch, signals: &mut Signals) -> Result<bool, RenewError> {
    let ready = readable::wait([pidfd.as_fd(), signals.as_fd(), watch.as_fd()], None);
    while watch.read().is_some() {}
    if ready[1] && !signals.read().is_empty() {
        return Err(RenewError::Left);
    }
    Ok(ready[0])
}
