//! The connections, and the states of their workers.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

use super::effect::Connection;
use super::files::Held;
use crate::wire::{Offer, RequestId, WorkerState};
use base::{Mono, Neighbourhood, Origin, Usd};

/// Longest worker id that is kept; it is a label for people, such as a port number or a name.
const LABEL_CHARS_MAX: usize = 128;

/// The state of a connection.
#[derive(Debug, PartialEq)]
pub(super) enum State {
    /// It has not sent JOIN.
    Stranger,
    /// It has sent a wrong secret, and has not got its answer yet.
    Guessed,
    /// It has no work, but got a message so recently that it may not get a prompt yet.
    Settling,
    /// It waits for a prompt; the number is its place in the queue.
    Idle(u64),
    /// It waits until its service can be used again.
    Resting,
    /// A file is being moved to `working/` for it.
    Claiming,
    /// The prompt, of this many bytes, has been sent.
    Requesting(Box<Held>, usize),
    /// The prompt has been acknowledged.
    Working(Box<Held>),
    /// The connection is being closed.
    Disconnecting,
}

/// A message that a peer gets as soon as it may, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Debt {
    /// The answer to another JOIN.
    JoinAck,
    /// The answer to a status request.
    Status,
    /// The check of a TIMER.
    Check,
}

/// The kind of an unacknowledged message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Request,
    Check,
}

/// A report, as a worker has sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Report {
    Done,
    Failed(String),
}

/// A report that has not been carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The answer is on its way to the disk.
    Storing(Report),
    /// It could not be stored, and is at its worker.
    Unstored,
}

#[derive(Debug)]
pub(super) struct Peer {
    /// Its own name for itself; `None` until it has joined.
    pub(super) label: Option<String>,
    pub(super) origin: Origin,
    /// Whether it has proved that it has an authorised key.
    pub(super) is_authorised: bool,
    /// Why it is not served without a key: it belongs to another user of this machine, and there is no secret.
    pub(super) refusal: Option<String>,
    pub(super) state: State,
    /// Start of the present state.
    pub(super) since: Mono,
    /// The unacknowledged messages. Each has a [`super::Timer::Acknowledge`].
    pub(super) outstanding: BTreeMap<RequestId, Asked>,
    /// Whether it has declared that it splits the stream into messages.
    pub(super) splits: bool,
    /// Whether it keeps its run while it has no connection. Such a worker splits the stream.
    pub(super) resumes: bool,
    /// The service behind it; workers of a closed gate rest.
    pub(super) gate: Option<String>,
    /// Whether it can be asked for the output of its run. Such a worker splits the stream.
    pub(super) tails: bool,
    /// Why it rests, or has rested.
    pub(super) reason: Option<String>,
    /// Its report on the present run, if that waits for its answer to be stored.
    pub(super) answer: Option<Answer>,
    /// Whether it may not get a message yet, until its [`super::Timer::Speak`].
    pub(super) is_quiet: bool,
    /// Whether the last message to it, if it does not split the stream, was a CHECK: then it is a prompt's turn.
    pub(super) is_checked: bool,
    /// The messages that it gets afterwards.
    pub(super) owed: BTreeSet<Debt>,
}

impl Peer {
    pub(super) const fn new(since: Mono, origin: Origin) -> Self {
        Self {
            label: None,
            origin,
            is_authorised: false,
            refusal: None,
            state: State::Stranger,
            since,
            outstanding: BTreeMap::new(),
            splits: false,
            resumes: false,
            gate: None,
            tails: false,
            reason: None,
            answer: None,
            is_quiet: false,
            is_checked: false,
            owed: BTreeSet::new(),
        }
    }

    /// Its label and its address, for people.
    pub(super) fn name(&self) -> String {
        match &self.label {
            Some(label) => format!("worker {label} ({})", self.origin),
            None => self.origin.to_string(),
        }
    }

    pub(super) fn held(&self) -> Option<&Held> {
        match &self.state {
            State::Requesting(held, _) | State::Working(held) => Some(held),
            State::Stranger
            | State::Guessed
            | State::Settling
            | State::Idle(_)
            | State::Resting
            | State::Claiming
            | State::Disconnecting => None,
        }
    }

    /// Whether it has joined and is not being closed.
    pub(super) const fn is_worker(&self) -> bool {
        !matches!(self.state, State::Stranger | State::Guessed | State::Disconnecting)
    }

    /// Whether it may be sent a message. A worker whose prompt is being fetched gets that next.
    pub(super) fn may_hear(&self) -> bool {
        self.splits || !(self.is_quiet || self.state == State::Claiming)
    }

    /// The state in the document's words.
    pub(super) const fn shown_state(&self) -> WorkerState {
        match self.state {
            State::Stranger | State::Guessed | State::Settling | State::Idle(_) | State::Resting => WorkerState::Idle,
            State::Claiming | State::Requesting(..) => WorkerState::Requesting,
            State::Working(_) => WorkerState::Working,
            State::Disconnecting => WorkerState::Disconnecting,
        }
    }
}

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
        self.insert(connection, Peer { since, ..peer });
        Some(old)
    }

    /// A stranger becomes a worker, at the end of the queue.
    pub(super) fn join(&mut self, connection: Connection, label: &str, splits: bool, offer: &Offer, since: Mono) {
        let Some(peer) = self.remove(connection) else { return };
        let label = Some(label.chars().take(LABEL_CHARS_MAX).collect());
        let state = self.end_of_queue();
        let (resumes, tails, gate) = (splits && offer.resumes, splits && offer.tails, offer.gate.clone());
        self.insert(connection, Peer { label, splits, resumes, tails, gate, state, since, ..peer });
    }

    /// The id under which a message to this peer must be acknowledged.
    pub(super) fn ask(&mut self, connection: Connection, asked: Asked) -> RequestId {
        let request = RequestId::from_random(self.random.random());
        if let Some(peer) = self.get_mut(connection) {
            peer.outstanding.insert(request.clone(), asked);
        }
        request
    }

    /// The worker has told the cost of this run; false if it has another one.
    pub(super) fn set_cost(&mut self, connection: Connection, run: &RequestId, cost: Usd) -> bool {
        let held = match self.all.get_mut(&connection).map(|peer| &mut peer.state) {
            Some(State::Working(held)) if held.run.as_ref() == Some(run) => held,
            _ => return false,
        };
        held.cost = Some(cost);
        true
    }

    /// A worker has acknowledged its prompt.
    pub(super) fn start_run(&mut self, connection: Connection, since: Mono) {
        let Some(mut peer) = self.remove(connection) else { return };
        peer.state = match peer.state {
            State::Requesting(held, _) => State::Working(held),
            state => unreachable!("{connection:?} has acknowledged a request in {state:?}"),
        };
        self.insert(connection, Peer { since, ..peer });
    }

    pub(super) fn insert(&mut self, connection: Connection, peer: Peer) {
        self.workers += usize::from(peer.is_worker());
        if !peer.is_worker() {
            self.strangers.entry(peer.origin.neighbourhood()).or_default().insert(connection);
        }
        match &peer.state {
            State::Idle(turn) => {
                self.idle.insert(*turn, connection);
            }
            State::Requesting(_, bytes) => self.sending_bytes += bytes,
            State::Stranger
            | State::Guessed
            | State::Settling
            | State::Resting
            | State::Claiming
            | State::Working(_)
            | State::Disconnecting => {}
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
        match &peer.state {
            State::Idle(turn) => {
                self.idle.remove(turn);
            }
            State::Requesting(_, bytes) => self.sending_bytes -= bytes,
            State::Stranger
            | State::Guessed
            | State::Settling
            | State::Resting
            | State::Claiming
            | State::Working(_)
            | State::Disconnecting => {}
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
            let requests = peer.outstanding.values().filter(|asked| **asked == Asked::Request).count();
            let requesting = matches!(peer.state, State::Requesting(..));
            assert_eq!(requests, usize::from(requesting), "{connection:?}: {:?}", peer.state);
            assert!(peer.is_worker() || peer.outstanding.is_empty(), "{connection:?} is asked in vain");
            assert!(peer.label.is_some() || !peer.is_worker(), "{connection:?} works and has not joined");
            assert!(!peer.is_quiet || (peer.is_worker() && !peer.splits), "{connection:?} is quiet in vain");
            assert!(peer.is_quiet || peer.state != State::Settling, "{connection:?} settles forever");
            assert!(
                !(peer.is_quiet && matches!(peer.state, State::Idle(_))),
                "{connection:?} may not hear of a prompt"
            );
            let gives_way = peer.is_checked && matches!(peer.state, State::Idle(_));
            assert!(peer.owed.is_empty() || gives_way || !peer.may_hear(), "{connection:?} waits for {:?}", peer.owed);
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
        let sending =
            self.all.values().map(|peer| if let State::Requesting(_, bytes) = peer.state { bytes } else { 0 });
        assert_eq!(sending.sum::<usize>(), self.sending_bytes);
    }
}
