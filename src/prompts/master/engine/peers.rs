//! All connections, the queue of idle workers, and the sums over them.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

use super::effect::Connection;
use super::peer::{AckKind, Peer, State};
use crate::wire::{Offer, RequestId};
use base::{Mono, Neighbourhood, Usd};

/// All connections. Every change of a state goes through [`Peers::set`], which keeps the queue and the sums consistent.
#[derive(Debug)]
pub(super) struct Peers {
    /// The source of request ids.
    random: Xoshiro256PlusPlus,
    all: BTreeMap<Connection, Peer>,
    /// The workers that wait for a prompt, longest first.
    idle: BTreeMap<u64, Connection>,
    turns: u64,
    sending_bytes: usize,
    workers: usize,
    /// The connections that have not joined, or are being closed, in the order of arrival.
    strangers: BTreeMap<Neighbourhood, BTreeSet<Connection>>,
}

impl Peers {
    /// The seed determines all request ids.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            all: BTreeMap::new(),
            idle: BTreeMap::new(),
            turns: 0,
            sending_bytes: 0,
            workers: 0,
            strangers: BTreeMap::new(),
        }
    }

    pub(super) fn get(&self, connection: Connection) -> Option<&Peer> {
        self.all.get(&connection)
    }

    pub(super) fn get_mut(&mut self, connection: Connection) -> Option<&mut Peer> {
        self.all.get_mut(&connection)
    }

    /// Changes the state, and returns the previous one.
    pub(super) fn set(&mut self, connection: Connection, state: State, since: Mono) -> Option<State> {
        let mut peer = self.remove(connection)?;
        let old = std::mem::replace(&mut peer.state, state);
        peer.since = since;
        self.insert(connection, peer);
        Some(old)
    }

    /// A stranger becomes a worker, at the end of the queue.
    pub(super) fn join(&mut self, connection: Connection, label: &str, splits: bool, offer: &Offer, since: Mono) {
        let Some(mut peer) = self.remove(connection) else { return };
        peer.join(label, splits, offer);
        (peer.state, peer.since) = (self.end_of_queue(), since);
        self.insert(connection, peer);
    }

    /// The id under which a message to this peer must be acknowledged.
    pub(super) fn expect_ack(&mut self, connection: Connection, kind: AckKind) -> RequestId {
        let request = RequestId::from_random(self.random.random());
        if let Some(peer) = self.get_mut(connection) {
            peer.expect_ack(request.clone(), kind);
        }
        request
    }

    /// The worker has reported the cost of this run. False if it has another run.
    pub(super) fn set_cost(&mut self, connection: Connection, run: &RequestId, cost: Usd) -> bool {
        let held = match self.all.get_mut(&connection).map(|peer| &mut peer.state) {
            Some(State::Working(held, _)) if held.run.as_ref() == Some(run) => held,
            _ => return false,
        };
        held.cost = Some(cost);
        true
    }

    /// A worker has acknowledged its prompt.
    pub(super) fn start_run(&mut self, connection: Connection, since: Mono) {
        let Some(mut peer) = self.remove(connection) else { return };
        peer.state = match peer.state {
            State::Requesting(held, _) => State::Working(held, None),
            state => unreachable!("{connection:?} has acknowledged a request in {state:?}"),
        };
        peer.since = since;
        self.insert(connection, peer);
    }

    /// A message has been sent. True if the worker gets no other one for a while, and settles if it is idle.
    pub(super) fn begin_pause(&mut self, connection: Connection, after_check: bool) -> bool {
        let Some(peer) = self.all.get_mut(&connection) else { return false };
        let pauses = peer.begin_pause(after_check);
        if pauses && matches!(peer.state, State::Idle(_)) {
            let since = peer.since;
            self.set(connection, State::Settling, since);
        }
        pauses
    }

    pub(super) fn insert(&mut self, connection: Connection, peer: Peer) {
        self.workers += usize::from(peer.is_worker());
        if !peer.is_worker() {
            self.strangers.entry(peer.origin.neighbourhood()).or_default().insert(connection);
        }
        self.sending_bytes += peer.sending_bytes();
        if let State::Idle(turn) = peer.state {
            self.idle.insert(turn, connection);
        }
        self.all.insert(connection, peer);
    }

    pub(super) fn remove(&mut self, connection: Connection) -> Option<Peer> {
        let peer = self.all.remove(&connection)?;
        self.workers -= usize::from(peer.is_worker());
        if let Some(strangers) = self.strangers.get_mut(&peer.origin.neighbourhood()) {
            strangers.remove(&connection);
            if strangers.is_empty() {
                self.strangers.remove(&peer.origin.neighbourhood());
            }
        }
        self.sending_bytes -= peer.sending_bytes();
        if let State::Idle(turn) = &peer.state {
            self.idle.remove(turn);
        }
        Some(peer)
    }

    /// The end of the queue of idle workers.
    pub(super) fn end_of_queue(&mut self) -> State {
        self.turns += 1;
        State::Idle(self.turns)
    }

    /// The worker that has waited longest for a prompt.
    pub(super) fn next_idle(&self) -> Option<Connection> {
        self.idle.first_key_value().map(|(_, connection)| *connection)
    }

    /// The oldest connection without a worker, of the address with the most such connections.
    pub(super) fn most_crowded(&self) -> Option<Connection> {
        self.strangers.values().max_by_key(|strangers| strangers.len())?.first().copied()
    }

    /// Bytes of unacknowledged prompts.
    pub(super) const fn sending_bytes(&self) -> usize {
        self.sending_bytes
    }

    /// Number of connections that have joined and are not being closed.
    pub(super) const fn workers(&self) -> usize {
        self.workers
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Connection, &Peer)> {
        self.all.iter().map(|(connection, peer)| (*connection, peer))
    }

    pub(super) fn sanity_check(&self) {
        let mut held = BTreeSet::new();
        for (connection, peer) in self.iter() {
            if let State::Idle(turn) = &peer.state {
                assert_eq!(self.idle.get(turn), Some(&connection), "{connection:?} is idle and not in the queue");
            }
            if let Some(file) = peer.held().map(|held| &held.file) {
                assert!(held.insert(file), "{file} is held twice");
            }
            peer.sanity_check();
        }
        let count = |what: fn(&Peer) -> bool| self.all.values().filter(|peer| what(peer)).count();
        assert_eq!(
            count(|peer| matches!(peer.state, State::Idle(_))),
            self.idle.len(),
            "the queue contains a worker that is not idle"
        );
        assert_eq!(count(Peer::is_worker), self.workers);
        let strangers: usize = self.strangers.values().map(BTreeSet::len).sum();
        assert_eq!(count(|peer| !peer.is_worker()), strangers);
        assert_eq!(self.all.values().map(Peer::sending_bytes).sum::<usize>(), self.sending_bytes);
    }
}
