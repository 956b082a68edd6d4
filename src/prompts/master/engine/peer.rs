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
    /// The prompt has been acknowledged. A report on it may wait for its answer to be stored.
    Working(Box<Held>, Option<Answer>),
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

/// The right of a peer to be served.
#[derive(Debug)]
enum Access {
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
    /// Its own name for itself.
    pub(super) label: String,
    /// Whether it keeps its run while it has no connection. Such a worker splits the stream.
    pub(super) resumes: bool,
    /// Whether it can be asked for the output of its run. Such a worker splits the stream.
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
    /// After its [`super::Timer::Speak`].
    Quiet { after_check: bool },
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) origin: Origin,
    access: Access,
    /// `None` until it has joined.
    pub(super) worker: Option<Worker>,
    pub(super) state: State,
    /// Start of the present state.
    pub(super) since: Mono,
    /// The unacknowledged messages. Each has a [`super::Timer::Acknowledge`].
    outstanding: BTreeMap<RequestId, Asked>,
    /// The last limit of its service, for people.
    limit: Option<String>,
    pub(super) pacing: Pacing,
    /// The messages that it gets as soon as it may.
    owed: BTreeSet<Debt>,
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
            owed: BTreeSet::new(),
        }
    }

    /// A stranger becomes a worker. One that does not split the stream neither resumes nor tails.
    pub(super) fn join(&mut self, label: &str, splits: bool, offer: &Offer) {
        let label = label.chars().take(LABEL_CHARS_MAX).collect();
        let (resumes, tails, gate) = (splits && offer.resumes, splits && offer.tails, offer.gate.clone());
        self.worker = Some(Worker { label, resumes, tails, gate });
        self.pacing = if splits { Pacing::Unpaced } else { Pacing::Ready };
    }

    /// Its label and its address, for people.
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
        if !self.is_authorised() {
            self.access = Access::Key(why);
        }
    }

    pub(super) const fn is_authorised(&self) -> bool {
        matches!(self.access, Access::Authorised)
    }

    /// Why it needs an authorised key, if it does.
    pub(super) const fn missing_key(&self) -> Option<&String> {
        match &self.access {
            Access::Key(why) => Some(why),
            Access::Secret | Access::Authorised => None,
        }
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

    /// A run of it has met this limit.
    pub(super) fn meet_limit(&mut self, reason: String) {
        self.limit = Some(reason);
    }

    /// Why it rests, if it does and the reason is known.
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

    /// Its report that has not been carried out.
    pub(super) const fn answer(&self) -> Option<&Answer> {
        match &self.state {
            State::Working(_, answer) => answer.as_ref(),
            _ => None,
        }
    }

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

    /// Whether it has joined and is not being closed.
    pub(super) const fn is_worker(&self) -> bool {
        !matches!(self.state, State::Stranger | State::Guessed | State::Disconnecting)
    }

    /// Whether it may be sent a message. A worker whose prompt is being fetched gets that next.
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

    /// It has got a message. True if that begins a pause: it is a worker that does not split the stream.
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

    /// A message is owed to it; a second one of the same kind is not.
    pub(super) fn owe(&mut self, debt: Debt) {
        self.owed.insert(debt);
    }

    /// The first message that is owed to it, if it may get one.
    pub(super) fn next_debt(&self) -> Option<Debt> {
        self.owed.first().copied().filter(|_| self.may_receive())
    }

    /// The invariants.
    pub(super) fn sanity_check(&self) {
        let (name, state) = (self.name(), &self.state);
        let requests = self.outstanding.values().filter(|asked| **asked == Asked::Request).count();
        assert_eq!(requests, usize::from(matches!(state, State::Requesting(..))), "{name}: {state:?}");
        assert!(self.is_worker() || self.outstanding.is_empty(), "{name} is asked in vain");
        assert!(self.worker.is_some() || !self.is_worker(), "{name} works and has not joined");
        assert!(!self.is_quiet() || self.is_worker(), "{name} is quiet in vain");
        assert!(self.is_quiet() || *state != State::Settling, "{name} settles forever");
        assert!(!(self.is_quiet() && matches!(state, State::Idle(_))), "{name} is idle and may not get a prompt");
        assert!(self.next_debt().is_none() || self.prefers_prompt(), "{name} waits for {:?}", self.owed);
    }

    /// Whether an owed CHECK gives way to a prompt, if there is one.
    pub(super) const fn prefers_prompt(&self) -> bool {
        matches!((self.pacing, &self.state), (Pacing::PromptFirst, State::Idle(_)))
    }

    pub(super) fn pay_first(&mut self) {
        self.owed.pop_first();
    }

    pub(super) const fn outstanding(&self) -> &BTreeMap<RequestId, Asked> {
        &self.outstanding
    }

    pub(super) fn ask(&mut self, request: RequestId, asked: Asked) {
        self.outstanding.insert(request, asked);
    }

    /// False if no such message is outstanding.
    pub(super) fn acknowledge(&mut self, request: &RequestId, asked: Asked) -> bool {
        let is_asked = self.outstanding.get(request) == Some(&asked);
        if is_asked {
            self.outstanding.remove(request);
        }
        is_asked
    }

    /// Nothing more is sent to it, and nothing is expected. Returns the outstanding requests.
    pub(super) fn hang_up(&mut self) -> impl Iterator<Item = RequestId> {
        self.end_pause();
        self.owed.clear();
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
