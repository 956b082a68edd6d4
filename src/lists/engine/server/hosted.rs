//! A worker inside the process of the server: the agents of a controller. It has a name and a connection like any other worker, but
//! keeps no list waiting for it: it claims one that is open, or none.

use std::collections::BTreeMap;

use super::{Connection, Server};
use crate::wire::{FromWorker, Order};
use base::Now;
use base::lists::RunningName;
use base::tdf::WorkerName;

impl Server {
    /// The worker joins, after the lists of an earlier server were found; returns its own lists, with the tasks that have
    /// not ended.
    pub fn handle_hosted(&mut self, connection: Connection, worker: &WorkerName) -> BTreeMap<RunningName, Vec<Order>> {
        self.peers.host(connection, worker.clone());
        let its = self.lists_of(|running| running.holder.is_none()).into_iter().filter(|list| list.worker == *worker);
        let its: Vec<RunningName> = its.collect();
        let taken_up = its.into_iter().filter(|list| self.take_up(connection, worker, list));
        let taken_up: Vec<RunningName> = taken_up.collect();
        taken_up.into_iter().map(|list| (list.clone(), self.orders(&list))).collect()
    }

    /// Whether open lists wait that no worker has asked for.
    #[must_use]
    pub fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Whether a worker waits for a list.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.peers.has_claimer()
    }

    /// The hosted worker claims an open list, if there is one: after the effects of this call it has it, or
    /// [`Self::handle_unclaimed`] ends the claim.
    pub fn handle_claim(&mut self, now: Now, connection: Connection) {
        if self.has_open() {
            self.handle_message(now, connection, FromWorker::Claim {});
        }
    }

    /// The hosted worker does not wait for a list.
    pub fn handle_unclaimed(&mut self, connection: Connection) {
        self.peers.unclaim(connection);
    }

    /// The hosted worker gives the rest of a list back.
    pub fn handle_given_back(&mut self, now: Now, connection: Connection, list: &RunningName) {
        if self.lists_of(|running| running.holder == Some(connection)).contains(list) {
            self.lose(now, list);
        }
    }
}
