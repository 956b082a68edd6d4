//! A queue that controllers of several machines share: each waits until it leads, and commits often enough to stay the leader.

use std::os::fd::AsFd as _;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::{ControllerError, Service};
use crate::store::{FileStore, ServerStore, Store, StoreError};
use api::config::{Config, StoreServer};
use api::reload::Reload;
use api::transport;
use base::{Mono, Now};
use proc::signals::Signals;
use proc::{clock, readable};

/// The time between two looks of a controller that waits: short compared with a lease.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// The lease is renewed after its length divided by this.
const RENEWALS: u32 = 4;

/// Opens the store of this controller. One in a server is waited for until this controller leads its queue; `None` if a signal ends the
/// wait.
///
/// # Errors
/// When the store cannot be used.
pub(super) fn open(config: &Config, signals: &mut Signals, reload: &Reload) -> Result<Option<Store>, ControllerError> {
    let state_dir = &config.paths.state_dir;
    match &config.store.server {
        None => Ok(Some(Store::File(Box::new(FileStore::open(state_dir, config.controller.durability)?)))),
        Some(server) => Ok(lead(config, server, (signals, reload))?.map(|store| Store::Server(Box::new(store)))),
    }
}

fn lead(
    config: &Config,
    server: &StoreServer,
    (signals, reload): (&mut Signals, &Reload),
) -> Result<Option<ServerStore>, StoreError> {
    let state_dir = &config.paths.state_dir;
    let mut store = ServerStore::open(server, state_dir)?;
    let address = transport::agent_endpoint(config);
    let mut told = None;
    loop {
        match store.lead_or_follow(&address, state_dir, rand::random()) {
            Ok(None) => {
                log::info!("this controller leads the queue in {}", store.place());
                return Ok(Some(store));
            }
            Ok(Some(leader)) => tell(&mut told, format!("standing by: {}", store.leads(&leader))),
            // It has been reached before, and a server that restarts comes back.
            Err(StoreError::Server(why)) if told.is_some() => tell(&mut told, format!("standing by: {why}")),
            Err(error) => return Err(error),
        }
        if readable::wait([signals.as_fd()], Some(LOOK_INTERVAL))[0] {
            let (reloads, ends): (Vec<Signal>, Vec<Signal>) =
                signals.read().into_iter().partition(|signal| *signal == Signal::SIGHUP);
            if !ends.is_empty() {
                store.stand_by_no_more(state_dir);
                return Ok(None);
            }
            if !reloads.is_empty() {
                reload.reload(&config.log);
            }
        }
    }
}

/// Logs a line, unless it was the last one.
fn tell(told: &mut Option<String>, line: String) {
    if told.as_ref() != Some(&line) {
        log::info!("{line}");
        *told = Some(line);
    }
}

/// The lease of a controller by its own clock. It ends no later than the lease by the clock of the server.
pub(super) struct Lease {
    length: Duration,
    /// When the last successful commit began; `None` before the first one, which tells whether this controller still leads.
    renewed: Option<Mono>,
}

impl Lease {
    /// The lease of a queue that other controllers may lead.
    pub(super) fn of(config: &Config) -> Option<Self> {
        config.store.server.as_ref().map(|server| Self { length: server.lease, renewed: None })
    }

    /// The longest time between two commits of a leader.
    pub(super) fn interval(&self) -> Duration {
        self.length / RENEWALS
    }

    /// A commit was made that began at this moment.
    pub(super) const fn renewed(&mut self, began: Mono) {
        self.renewed = Some(began);
    }
}

impl Service {
    /// Renews the lease, if that is due.
    pub(super) fn stay_leader(&mut self, now: Now) {
        if let Some(lease) = &self.lease
            && self.sequencer.renewal(self.commit_began, lease.interval()).is_some_and(|at| at <= now.mono)
        {
            self.sequencer.probe_store();
        }
    }

    /// Finds out whether this controller still leads, if its lease may have ended because it was frozen, the server is slow, or it has
    /// loaded its queue. Its
    /// knowledge may be old until then. While the store is in trouble, answers say so.
    ///
    /// # Errors
    /// When another controller leads.
    pub(super) fn make_sure(&mut self, mut now: Now) -> Result<Now, ControllerError> {
        loop {
            let may_be_over = |lease: &Lease| lease.renewed.is_none_or(|at| now.mono.since(at) >= lease.length);
            if self.sequencer.trouble_since().is_some() || !self.lease.as_ref().is_some_and(may_be_over) {
                return Ok(now);
            }
            self.sequencer.probe_store();
            self.depart(now);
            readable::wait([self.writer.as_fd()], None);
            now = clock::now();
            self.take_outcome(now)?;
        }
    }
}
