//! What goes out of the controller's engine: answers, effects and deadlines.

use std::ops::RangeInclusive;

use crate::protocol::publish::Published;
use crate::protocol::reply::{Reply, Wanted};
use crate::types::{AgentId, GateSettings, Label, Phase, Round, TaskId, TaskRecord};

/// The connection that a request came by. The shell names it, and gives no name twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

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
    pub(super) const MIN: Self = Self { connection: ConnectionId(0), number: 0 };
    /// After every ticket.
    pub(super) const MAX: Self = Self { connection: ConnectionId(u64::MAX), number: u64::MAX };

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
/// All [`Record`]s of a turn are committed at once ([`Ledger`](super::Ledger)). What [`Effect::is_promise`] says leaves after
/// that commit; everything else may leave before it, so that no dispatch waits for a disk (design, section 4).
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

impl Effect {
    /// Whether this tells somebody what must not be lost any more.
    #[must_use]
    pub fn is_promise(&self) -> bool {
        match self {
            Self::Record(_) | Self::Publish(_) => false,
            // Whoever has waited for the end goes on from here.
            Self::Reply(_, Reply::Task { record, .. }) => finished(record),
            Self::Reply(_, reply) => reply_is_promise(reply),
            // What comes of another round is said after the promise that hands it out, so pushes stay in order.
            Self::Push(record) | Self::PushAgain(record) => finished(record) || record.phase() == Phase::Waiting,
        }
    }
}

/// Whether this answer must wait for the commit: that something was taken, or that an agent may forget a run. A task is handed
/// out without a wait for the disk, but not again, and not if it is exclusive: a controller that dies must not leave a round that
/// its successor hands out, too.
#[must_use]
pub fn reply_is_promise(reply: &Reply) -> bool {
    match reply {
        Reply::Submitted { .. } | Reply::Done => true,
        Reply::Assigned(record) => record.round > Round(0) || record.lease().is_some(),
        Reply::Reported { phase, refusal, .. } => *phase >= Phase::Ended || refusal.is_some(),
        Reply::Heartbeat { wanted, .. } => matches!(wanted, Some((.., Wanted::Drop))),
        _ => false,
    }
}

/// Whether this answer shows how tasks stand. What it shows shall not be undone by a restart, so it waits for the store, but not
/// for one that is in trouble.
#[must_use]
pub const fn reply_is_view(reply: &Reply) -> bool {
    matches!(reply, Reply::Task { .. } | Reply::Explained { .. } | Reply::Tasks { .. })
}

fn finished(record: &TaskRecord) -> bool {
    record.phase() == Phase::Finished
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
