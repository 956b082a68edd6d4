//! A connection: the state of its worker, its rights, and the messages between them.

use std::collections::{BTreeMap, BTreeSet};

use super::files::Held;
use crate::wire::{Offer, RequestId, WorkerState};
use base::{Mono, Origin};

/// Longest worker id that is kept; it is a label for people, such as a port number or a name.
const LABEL_CHARS_MAX: usize = 128;

/// The state of a connection.
#[derive(Debug, PartialEq)]
pub(super) enum State {
    /// JOIN has not arrived.
    Stranger,
    /// A wrong secret has arrived, and is not answered yet.
    Guessed,
    /// Without work, but in the pause after a message.
    Settling,
    /// Waiting for a prompt; the number is the place in the queue.
    Idle(u64),
    /// Waiting until the service behind the worker can be used again.
    Resting,
    /// A file is being moved to `working/` for the worker.
    Claiming,
    /// The prompt, of this many bytes, has been sent.
    Requesting(Box<Held>, usize),
    /// The prompt has been acknowledged. A report on it may wait for its answer to be stored.
    Working(Box<Held>, Option<Answer>),
    /// The connection is being closed.
    Disconnecting,
}

/// A message that waits for the pause before it to end. Several are sent in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Queued {
    /// The answer to another JOIN.
    JoinAck,
    /// The answer to a status request.
    Status,
    /// The check of a TIMER.
    Check,
}

/// The kind of an unacknowledged message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckKind {
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
    /// The answer could not be stored, and its worker has it.
    Unstored,
}

/// The right of a peer to be served.
#[derive(Debug)]
pub(super) enum Access {
    /// The secret decides, if there is one.
    Secret,
    /// An authorised key is needed, for this reason: the peer belongs to another user of this machine, and there is no secret.
    Key(String),
    /// The peer has proved that it has an authorised key.
    Authorised,
}

/// The declarations of a worker in its JOIN.
#[derive(Debug)]
pub(super) struct Worker {
    /// The worker's own name, a label for people.
    pub(super) label: String,
    /// The worker keeps its run while it has no connection. Such a worker splits the stream.
    pub(super) resumes: bool,
    /// The worker answers requests for the output of its run. Such a worker splits the stream.
    pub(super) tails: bool,
    /// The service behind it; workers of a closed gate rest.
    pub(super) gate: Option<String>,
}

/// When a peer may get a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pacing {
    /// At any time, because the worker splits the stream into messages.
    Unpaced,
    /// At once.
    Ready,
    /// At once, but a prompt goes before another CHECK.
    PromptFirst,
    /// After its [`super::Timer::Pause`].
    Quiet { after_check: bool },
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) origin: Origin,
    access: Access,
    /// `None` before JOIN.
    pub(super) worker: Option<Worker>,
    pub(super) state: State,
    /// Start of the present state.
    pub(super) since: Mono,
    /// The unacknowledged messages. Each has a [`super::Timer::Acknowledge`].
    outstanding: BTreeMap<RequestId, AckKind>,
    /// The last limit of the service behind the worker, for people.
    limit: Option<String>,
    pub(super) pacing: Pacing,
    /// Messages that are sent when the pause ends.
    queue: BTreeSet<Queued>,
}

impl Peer {
    pub(super) const fn new(since: Mono, origin: Origin) -> Self {
        Self {
            origin,
            access: Access::Secret,
            worker: None,
            state: State::Stranger,
            since,
            outstanding: BTreeMap::new(),
            limit: None,
            pacing: Pacing::Ready,
            queue: BTreeSet::new(),
        }
    }

    /// A stranger becomes a worker. A worker that does not split the stream neither resumes nor tails.
    pub(super) fn join(&mut self, label: &str, splits: bool, offer: &Offer) {
        let label = label.chars().take(LABEL_CHARS_MAX).collect();
        let (resumes, tails, gate) = (splits && offer.resumes, splits && offer.tails, offer.gate.clone());
        self.worker = Some(Worker { label, resumes, tails, gate });
        self.pacing = if splits { Pacing::Unpaced } else { Pacing::Ready };
    }

    /// Label and address, for people.
    pub(super) fn name(&self) -> String {
        match &self.worker {
            Some(worker) => format!("worker {} ({})", worker.label, self.origin),
            None => self.origin.to_string(),
        }
    }

    pub(super) fn authorise(&mut self) {
        self.access = Access::Authorised;
    }

    /// Only an authorised key admits the peer, for this reason.
    pub(super) fn require_key(&mut self, why: String) {
        if !matches!(self.access, Access::Authorised) {
            self.access = Access::Key(why);
        }
    }

    pub(super) const fn access(&self) -> &Access {
        &self.access
    }

    pub(super) fn resumes(&self) -> bool {
        self.worker.as_ref().is_some_and(|worker| worker.resumes)
    }

    pub(super) fn tails(&self) -> bool {
        self.worker.as_ref().is_some_and(|worker| worker.tails)
    }

    pub(super) fn gate(&self) -> Option<&str> {
        self.worker.as_ref()?.gate.as_deref()
    }

    /// A run of the worker has met this limit.
    pub(super) fn meet_limit(&mut self, reason: String) {
        self.limit = Some(reason);
    }

    /// The limit for which a resting worker rests, if it is known.
    pub(super) fn reason_of_rest(&self) -> Option<&String> {
        self.limit.as_ref().filter(|_| self.state == State::Resting)
    }

    pub(super) fn held(&self) -> Option<&Held> {
        match &self.state {
            State::Requesting(held, _) | State::Working(held, _) => Some(held),
            State::Stranger
            | State::Guessed
            | State::Settling
            | State::Idle(_)
            | State::Resting
            | State::Claiming
            | State::Disconnecting => None,
        }
    }

    /// Bytes of the prompt that has been sent and not acknowledged.
    pub(super) const fn sending_bytes(&self) -> usize {
        if let State::Requesting(_, bytes) = self.state { bytes } else { 0 }
    }

    /// The report that has not been carried out.
    pub(super) const fn take_answer(&mut self) -> Option<Answer> {
        match &mut self.state {
            State::Working(_, answer) => answer.take(),
            _ => None,
        }
    }

    pub(super) fn set_answer(&mut self, new: Answer) {
        if let State::Working(_, answer) = &mut self.state {
            *answer = Some(new);
        }
    }

    /// True from JOIN until the connection is being closed.
    pub(super) const fn is_worker(&self) -> bool {
        !matches!(self.state, State::Stranger | State::Guessed | State::Disconnecting)
    }

    /// Whether a message may be sent at once. A worker whose prompt is being fetched gets the prompt next.
    pub(super) fn may_receive(&self) -> bool {
        match self.pacing {
            Pacing::Unpaced => true,
            Pacing::Ready | Pacing::PromptFirst => self.state != State::Claiming,
            Pacing::Quiet { .. } => false,
        }
    }

    pub(super) const fn is_quiet(&self) -> bool {
        matches!(self.pacing, Pacing::Quiet { .. })
    }

    /// A message has been sent. True if that begins a pause, as for every worker that does not split the stream.
    pub(super) fn begin_pause(&mut self, after_check: bool) -> bool {
        if !self.is_worker() || self.pacing == Pacing::Unpaced {
            return false;
        }
        debug_assert!(!self.is_quiet(), "two messages to {} at once", self.name());
        self.pacing = Pacing::Quiet { after_check };
        true
    }

    /// The pause after a message has passed.
    pub(super) const fn end_pause(&mut self) {
        if let Pacing::Quiet { after_check } = self.pacing {
            self.pacing = if after_check { Pacing::PromptFirst } else { Pacing::Ready };
        }
    }

    /// Queues a message, unless one of its kind is queued already.
    pub(super) fn enqueue(&mut self, message: Queued) {
        self.queue.insert(message);
    }

    /// The first queued message, if it may be sent.
    pub(super) fn next_queued(&self) -> Option<Queued> {
        self.queue.first().copied().filter(|_| self.may_receive())
    }

    /// The invariants.
    pub(super) fn sanity_check(&self) {
        let (name, state) = (self.name(), &self.state);
        let requests = self.outstanding.values().filter(|kind| **kind == AckKind::Request).count();
        assert_eq!(requests, usize::from(matches!(state, State::Requesting(..))), "{name}: {state:?}");
        assert!(self.is_worker() || self.outstanding.is_empty(), "{name} has an outstanding message in vain");
        assert!(self.worker.is_some() || !self.is_worker(), "{name} works and has not joined");
        assert!(!self.is_quiet() || self.is_worker(), "{name} is quiet in vain");
        assert!(self.is_quiet() || *state != State::Settling, "{name} settles forever");
        assert!(!(self.is_quiet() && matches!(state, State::Idle(_))), "{name} is idle and may not get a prompt");
        assert!(self.next_queued().is_none() || self.prefers_prompt(), "{name} waits for {:?}", self.queue);
    }

    /// Whether a queued CHECK gives way to a prompt, if there is one.
    pub(super) const fn prefers_prompt(&self) -> bool {
        matches!((self.pacing, &self.state), (Pacing::PromptFirst, State::Idle(_)))
    }

    pub(super) fn dequeue(&mut self) {
        self.queue.pop_first();
    }

    pub(super) const fn outstanding(&self) -> &BTreeMap<RequestId, AckKind> {
        &self.outstanding
    }

    pub(super) fn expect_ack(&mut self, request: RequestId, kind: AckKind) {
        self.outstanding.insert(request, kind);
    }

    /// False if no such message waits for its acknowledgement.
    pub(super) fn acknowledge(&mut self, request: &RequestId, kind: AckKind) -> bool {
        let is_expected = self.outstanding.get(request) == Some(&kind);
        if is_expected {
            self.outstanding.remove(request);
        }
        is_expected
    }

    /// Forgets queued messages and outstanding ones; returns the ids of the latter.
    pub(super) fn hang_up(&mut self) -> impl Iterator<Item = RequestId> {
        self.end_pause();
        self.queue.clear();
        std::mem::take(&mut self.outstanding).into_keys()
    }

    /// The state in the document's words.
    pub(super) const fn shown_state(&self) -> WorkerState {
        match self.state {
            State::Stranger | State::Guessed | State::Settling | State::Idle(_) | State::Resting => WorkerState::Idle,
            State::Claiming | State::Requesting(..) => WorkerState::Requesting,
            State::Working(..) => WorkerState::Working,
            State::Disconnecting => WorkerState::Disconnecting,
        }
    }
}
