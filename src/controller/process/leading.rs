//! A queue that controllers of several machines share: each waits until it leads, and commits often enough to stay the leader.

use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use super::{ControllerError, Service};
use crate::store::{FileStore, ServerStore, Store, StoreError};
use api::config::{Config, StoreServer};
use api::transport;
use base::Now;
use proc::readable;
use proc::signals::Signals;

/// Between two looks of a controller that waits: short beside a lease.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// The share of the lease after which it is renewed.
const RENEWALS: u32 = 4;

/// Opens the store of this controller. One in a server is waited for until this controller leads its queue; `None` if a signal ends the
/// wait.
///
/// # Errors
/// When the store cannot be used.
pub(super) fn open(config: &Config, signals: &mut Signals) -> Result<Option<Store>, ControllerError> {
    let state_dir = &config.paths.state_dir;
    match &config.store.server {
        None => Ok(Some(Store::File(Box::new(FileStore::open(state_dir, config.controller.durability)?)))),
        Some(server) => Ok(lead(config, server, state_dir, signals)?.map(|store| Store::Server(Box::new(store)))),
    }
}

fn lead(
    config: &Config,
    server: &StoreServer,
    state_dir: &Path,
    signals: &mut Signals,
) -> Result<Option<ServerStore>, StoreError> {
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
            signals.read();
            store.stand_by_no_more(state_dir);
            return Ok(None);
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

/// How often a leader commits at least.
pub(super) fn renewal_interval(config: &Config) -> Option<Duration> {
    config.store.server.as_ref().map(|server| server.lease / RENEWALS)
}

impl Service {
    /// Renews the lease, if that is due.
    pub(super) fn stay_leader(&mut self, now: Now) {
        if let Some(interval) = self.renewal
            && self.sequencer.renewal(self.commit_began, interval).is_some_and(|at| at <= now.mono)
        {
            self.sequencer.probe_store();
        }
    }
}
