//! What goes out of the controller's engine: answers, effects and deadlines.

use std::ops::RangeInclusive;

use crate::protocol::publish::Published;
use crate::protocol::reply::Reply;
use crate::protocol::requests::heartbeat::{Heard, Wanted};
use crate::types::{AgentId, GateSettings, Label, Phase, Round, TaskId, TaskRecord, TaskState};

/// The connection that a request came by. The shell names it, and gives no name twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    /// Which of the controller's doors it leads to.
    pub door: u8,
    /// Its number there.
    pub number: u64,
}

/// A request whose answer is still owed. The shell makes it and knows where the answer goes. Those of a connection stand
/// together in the order of tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// Where it came from.
    pub connection: ConnectionId,
    /// No two have the same.
    pub number: u64,
}

impl Ticket {
    /// Before every ticket.
    pub(super) const MIN: Self = Self { connection: ConnectionId { door: 0, number: 0 }, number: 0 };
    /// After every ticket.
    pub(super) const MAX: Self =
        Self { connection: ConnectionId { door: u8::MAX, number: u64::MAX }, number: u64::MAX };

    /// All that a connection can have.
    pub(super) const fn of(connection: ConnectionId) -> RangeInclusive<Self> {
        Self { connection, number: 0 }..=Self { connection, number: u64::MAX }
    }
}

/// The answer to a request: by value, so that it can be neither forgotten nor doubled.
#[must_use]
#[derive(Debug, PartialEq)]
pub enum Answer {
    /// Here it is.
    Now(Reply),
    /// It comes as an [`Effect::Reply`] with the ticket of the request.
    Later,
    /// Here it is, and the task that the report asked for comes as an [`Effect::Reply`] with the same ticket.
    NowAndLater(Reply),
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self::Now(reply)
    }
}

/// What the shell must do, in order.
///
/// All [`Record`]s of a turn are committed at once ([`Sequencer`](super::Sequencer)). [`Effect::claim`] says what leaves after that
/// commit; everything else may leave before it, so that no dispatch waits for a disk (design, section 4).
#[must_use]
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Store this.
    Record(Record),
    /// Answer a parked request.
    Reply(Ticket, Reply),
    /// Publish this to agents and watchers.
    Publish(Published),
    /// The state of a task has changed: push it to its address, and publish it for those who watch.
    Push(Box<TaskRecord>),
    /// The end of a task was not confirmed: push it to its address once more.
    PushAgain(Box<TaskRecord>),
}

/// What a message says of stored things, and so what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It tells somebody what must not be lost any more: it waits for the commit.
    Promise,
    /// It shows how things stand. What it shows shall not be undone by a restart, so it waits for the commit, but not for a
    /// store that is in trouble.
    View,
    /// Nothing: it leaves at once.
    Nothing,
}

impl Claim {
    /// Whether a message leaves only after the commit of its turn.
    #[must_use]
    pub(super) const fn waits(self, is_store_in_trouble: bool) -> bool {
        match self {
            Self::Promise => true,
            Self::View => !is_store_in_trouble,
            Self::Nothing => false,
        }
    }

    const fn promise_if(is_promise: bool) -> Self {
        if is_promise { Self::Promise } else { Self::Nothing }
    }
}

impl Effect {
    /// What this effect claims.
    #[must_use]
    pub(super) fn claim(&self) -> Claim {
        match self {
            Self::Record(_) | Self::Publish(_) => Claim::Nothing,
            // Whoever has waited for the end goes on from here.
            Self::Reply(_, Reply::Task { record, .. }) if record.phase() == Phase::Finished => Claim::Promise,
            Self::Reply(_, reply) => claim_of_reply(reply),
            Self::Push(record) => claim_of_push(record),
            Self::PushAgain(_) => Claim::Promise,
        }
    }
}

/// What an answer claims. A task is handed out without a wait for the disk; but not for a second time, or where the next
/// controller could not find the run again: a controller that dies must not leave a run that its successor hands out, too.
#[must_use]
pub(super) fn claim_of_reply(reply: &Reply) -> Claim {
    match reply {
        Reply::Submitted { .. } | Reply::Done => Claim::Promise,
        Reply::Assigned(record) => {
            let after_commit = record.last_run().is_some_and(|run| run.after_commit);
            Claim::promise_if(record.round > Round(0) || after_commit)
        }
        // An agent forgets a run by it.
        Reply::Reported { phase, refusal, .. } => Claim::promise_if(*phase >= Phase::Ended || refusal.is_some()),
        Reply::Heartbeat(Heard { wanted, .. }) => Claim::promise_if(matches!(wanted, Some((.., Wanted::Drop)))),
        Reply::Task { .. }
        | Reply::Explained { .. }
        | Reply::Tasks { .. }
        | Reply::Agents { .. }
        | Reply::Gate(_)
        | Reply::Gates(_) => Claim::View,
        // How many there are at the moment, and not which: whoever asks whether the service is alive waits for no disk.
        Reply::Statistic(_) | Reply::AgentCounts(_) => Claim::Nothing,
        Reply::Refused(_) => Claim::Nothing,
    }
}

/// A return to WAITING and FINISHED are pushed after their commit. The phases of a run are pushed at once, unless a former
/// controller may have pushed something else with the same number: then the number is stored first.
fn claim_of_push(record: &TaskRecord) -> Claim {
    match &record.state {
        TaskState::Waiting { .. } | TaskState::Finished { .. } => Claim::Promise,
        TaskState::Dispatched(run)
        | TaskState::Preparing(run)
        | TaskState::Running(run)
        | TaskState::Ended { assignment: run, .. } => Claim::promise_if(run.dispatched.is_none()),
    }
}

/// What is stored. A later record of the same task, gate or agent replaces an earlier one.
#[derive(Debug, PartialEq)]
pub enum Record {
    /// The task stands like this.
    Put(Box<TaskRecord>),
    /// The task is forgotten.
    Remove(TaskId),
    /// The gate is set like this.
    Gate(Label, GateSettings),
    /// Whether the agent shall get no more tasks.
    Drained(AgentId, bool),
}

/// Why the engine wants to be called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A search goes on; it leaves room for other requests after each slice.
    Scan,
    /// An agent may have been silent for too long.
    Silence(AgentId),
    /// The lease of a void run is over.
    Lease(TaskId),
    /// Agents have not said in time that they have looked for tools.
    Look,
    /// The time for which an agent waits for a task is over.
    ApplyWait(AgentId),
    /// The time for which a query waits for the end of a task is over.
    QueryWait(Ticket),
    /// Finished tasks may be old enough to be forgotten.
    Retention,
    /// The run of a task has lasted as long as it may.
    RunTime(TaskId),
    /// A delay or a life is over, or a gate may open.
    Calendar,
    /// The end of a task was not confirmed.
    PushAgain(TaskId),
}
