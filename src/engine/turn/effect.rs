//! Outputs of the controller's engine: answers, effects and deadlines.

use std::time::Duration;

use super::batch_delay;
pub use super::ticket::{ConnectionId, Ticket};
use crate::archives::tool_order::ToolOrder;
use api::wire::graph::GraphRow;
use api::wire::publish::Published;
use api::wire::reply::Reply;
use api::wire::requests::heartbeat::{Directive, Heard};
use base::{
    AgentId, GateSettings, GraphChange, GraphId, JobMemo, JobName, JobStatus, Label, Phase, Round, TaskId, TaskRecord,
    TaskState, ToolDigest,
};

/// How long a record or message that no client waits for may be delayed to share a commit or a write.
pub(crate) const BATCH_DELAY_MAX: Duration = Duration::from_millis(10);

/// The answer to a request, by value, so that it can be neither forgotten nor sent twice.
#[must_use]
#[derive(Debug, PartialEq)]
pub enum Answer {
    /// The complete answer.
    Now(Reply),
    /// The answer comes as an [`Effect::Reply`] with the ticket of the request.
    Later,
    /// This answer now; the task that the report asked for comes as an [`Effect::Reply`] with the same ticket.
    NowAndLater(Reply),
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self::Now(reply)
    }
}

/// An instruction to the shell; the order matters.
///
/// All [`Record`]s of a turn are committed at once ([`Sequencer`](crate::Sequencer)). [`Effect::claim`] decides which
/// effects leave after that commit. All others may leave before it, so that no dispatch waits for a disk.
#[must_use]
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Store this record.
    Record(Record),
    /// Answer a parked request.
    Reply(Ticket, Reply),
    /// Publish this to agents and subscribers.
    Publish(Published),
    /// The state of a task has changed: push it to its address, and publish it to subscribers.
    Push(Box<TaskRecord>),
    /// The end of a task has not been confirmed: push it to its address again.
    PushAgain(Box<TaskRecord>),
    /// A job has changed: push its state to its receivers, and publish it to subscribers.
    JobStatus(Box<JobStatus>),
    /// A step graph has changed: push the change to its address, and publish it to subscribers.
    GraphStatus(Box<GraphChange>),
    /// Carry this out on the archives of tools.
    Tool(ToolOrder),
}

/// The assertion of a message about stored data, which decides how long the message waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It tells a client that something will not be lost: it waits for the commit.
    Promise,
    /// It shows the state of tasks. A restart must not undo what it shows, so it waits for the commit, but not for a store
    /// that is in trouble.
    View,
    /// It asserts nothing: it leaves at once.
    Nothing,
}

impl Claim {
    /// Whether a message leaves only after the commit of its turn.
    #[must_use]
    pub(crate) const fn waits(self, is_store_in_trouble: bool) -> bool {
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
    /// The claim of this effect.
    #[must_use]
    pub(crate) fn claim(&self) -> Claim {
        match self {
            Self::Record(_) | Self::Publish(_) | Self::Tool(_) => Claim::Nothing,
            // A client that has waited for the end continues from here.
            Self::Reply(_, Reply::Task { record, .. }) if record.phase() == Phase::Finished => Claim::Promise,
            Self::Reply(_, Reply::Job(view)) if view.ended_at.is_some() => Claim::Promise,
            Self::Reply(_, Reply::Graph(view)) if view.ended_at.is_some() => Claim::Promise,
            Self::Reply(_, reply) => claim_of_reply(reply),
            Self::Push(record) => claim_of_push(record),
            // Its number must be stored, and so must the ends that it counts.
            Self::PushAgain(_) | Self::JobStatus(_) | Self::GraphStatus(_) => Claim::Promise,
        }
    }

    /// How long it may be delayed to share a commit or a write. An end is told in the same time to the address of its task and to the
    /// client that waits for it.
    #[must_use]
    pub(crate) fn delay_max(&self) -> Duration {
        match self {
            // A task that does not wait for the disk is no reason for a commit of its own: only subscribers are told of it here.
            Self::Push(record) if record.address.is_none() && record.policy.eager => {
                BATCH_DELAY_MAX.max(batch_delay::of_many(record))
            }
            Self::Push(record) if record.address.is_none() => batch_delay::of_many(record),
            Self::Push(record) => record.batch_delay(),
            Self::Reply(_, Reply::Task { record, .. } | Reply::Called { record, .. })
                if record.phase() == Phase::Finished =>
            {
                record.batch_delay()
            }
            // It is no more urgent than the records that it depends on.
            Self::JobStatus(_) | Self::GraphStatus(_) => BATCH_DELAY_MAX,
            Self::Reply(..) | Self::Record(_) | Self::Publish(_) | Self::PushAgain(_) | Self::Tool(_) => Duration::ZERO,
        }
    }
}

/// The claim of an answer. A task is handed out without waiting for the disk, except for a second time, or if the next
/// controller could not find the run again: a controller that dies must not leave a run that its successor hands out as
/// well.
#[must_use]
pub(crate) fn claim_of_reply(reply: &Reply) -> Claim {
    match reply {
        // A call that does not wait for the disk learns the end of its run at once; if it is lost with the controller, its repetition
        // runs again. A task that ends without a run may not be stored, and another leader may make it again from its key.
        Reply::Called { record, .. } => {
            let has_run = matches!(record.state, TaskState::Finished { run: Some(_), .. });
            Claim::promise_if(!(record.policy.eager && has_run))
        }
        Reply::Submitted { .. }
        | Reply::SubmittedMany { .. }
        | Reply::GraphSubmitted { .. }
        | Reply::Concerned { .. }
        | Reply::Done => Claim::Promise,
        Reply::Assigned(record, _) => {
            let after_commit = record.last_run().is_some_and(|run| run.after_commit);
            Claim::promise_if(record.round > Round(0) || after_commit)
        }
        // Only tasks of a first round that need no commit.
        Reply::AssignedList(..) => Claim::Nothing,
        // The answer makes an agent forget a run.
        Reply::Reported { phase, refusal, .. } => Claim::promise_if(*phase >= Phase::Ended || refusal.is_some()),
        Reply::Heartbeat(Heard { wanted, .. }) => Claim::promise_if(matches!(wanted, Some((.., Directive::Drop)))),
        Reply::Task { .. }
        | Reply::Explained { .. }
        | Reply::Tasks { .. }
        | Reply::Rows(_)
        | Reply::Agents { .. }
        | Reply::Gate(_)
        | Reply::Gates(_)
        | Reply::Job(_)
        | Reply::Jobs { .. }
        | Reply::Graph(_)
        | Reply::Graphs { .. }
        | Reply::Steps { .. } => Claim::View,
        // A client continues from here, as after the answer to a query that has waited, unless it has asked not to wait for the disk.
        Reply::Results(ends) => Claim::promise_if(!ends.rows.is_empty() && !ends.early),
        // The end of an output shows that a run has ended; what a run writes is no state of a task.
        Reply::Output(part) => {
            if part.end {
                Claim::View
            } else {
                Claim::Nothing
            }
        }
        // The thread of the archives answers after its own sync.
        Reply::FilePut(_)
        | Reply::ToolPut { .. }
        | Reply::ToolPart(_)
        | Reply::Tools { .. }
        | Reply::Tool(_)
        | Reply::ToolLog(_) => Claim::Nothing,
        // The history has only what is stored.
        Reply::Wanted(_) | Reply::History(_) => Claim::Nothing,
        // Momentary counts, without ids: a client that checks whether the service is alive must not wait for a disk.
        Reply::Statistic(..) | Reply::AgentCounts(_) => Claim::Nothing,
        Reply::Status(_) => Claim::View,
        Reply::Refused(_) => Claim::Nothing,
        // The warning is added when the reply leaves.
        Reply::Warned(reply, _) => claim_of_reply(reply),
    }
}

/// A return to WAITING and FINISHED are pushed after their commit. The phases of a run are pushed at once, unless an
/// earlier controller may have pushed another change with the same number: then the number is stored first.
fn claim_of_push(record: &TaskRecord) -> Claim {
    match &record.state {
        TaskState::Waiting { .. } | TaskState::OutOfContact { .. } | TaskState::Finished { .. } => Claim::Promise,
        TaskState::Dispatched(run)
        | TaskState::Preparing(run)
        | TaskState::Running(run)
        | TaskState::Ended { assignment: run, .. } => Claim::promise_if(run.dispatched.is_none()),
    }
}

/// An entry of the store. A later record of the same task, gate, agent or job replaces an earlier one.
#[derive(Debug, PartialEq)]
pub enum Record {
    /// The present state of a task.
    Put(Box<TaskRecord>),
    /// This round of the task has ended: for the history, which gets it after the commit that has the end.
    Round(Round, Box<TaskRecord>),
    /// The task is forgotten.
    Remove(TaskId),
    /// The present settings of a gate.
    Gate(Label, GateSettings),
    /// Whether the agent gets no more tasks.
    Drained(AgentId, bool),
    /// The part of a job's state that its tasks do not show; `None` for a job that is gone.
    Job(JobName, Option<JobMemo>),
    /// A step graph; `None` for one that is forgotten, with its entries.
    Graph(GraphId, Option<Box<GraphRow>>),
    /// The entry of a graph with this number, from 1, as text.
    GraphEntry(GraphId, u32, Box<str>),
}

/// The reason for a deadline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The controller has suspected itself for long enough.
    Suspicion,
    /// A search continues; it leaves room for other requests after each slice.
    Scan,
    /// An agent may have been silent for too long.
    Silence(AgentId),
    /// The consequences of ends continue; they leave room for other requests after each slice.
    Relations,
    /// The effects of step graphs continue; they leave room for other requests after each slice.
    Graphs,
    /// A job that has changed may be published.
    JobStatus(JobName),
    /// The lease of a void run expires.
    Lease(TaskId),
    /// A pause ends.
    Pause,
    /// Tasks have finished without a line in the log.
    EndLines,
    /// Children wait, and their parents may have all agents.
    Slots,
    /// Readers of the ends of a job get those that have been gathered.
    Ends(JobName),
    /// No client may have read the ends of a job for long enough to forget them.
    EndLog(JobName),
    /// An agent has waited long enough for a task.
    ApplyWait(AgentId),
    /// A query has waited long enough for the end of a task.
    QueryWait(Ticket),
    /// Readers wait for changes of the state of the service.
    Look,
    /// A request for an output has waited long enough for a byte, or for its agent.
    OutputWait(Ticket),
    /// A version of a tool that nothing needs has been kept long enough.
    ToolDiscard(ToolDigest),
    /// Finished tasks may be old enough to be forgotten.
    Retention,
    /// The run of a task has reached its time limit.
    RunTime(TaskId),
    /// A delay or a task ends, or a gate may open.
    Calendar,
    /// A task has been left to the agents that have its tool warm for long enough.
    Young,
    /// The end of a task has not been confirmed.
    PushAgain(TaskId),
}
