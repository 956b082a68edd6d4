//! The record of a task: what the controller knows, stores and shows of it.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{
    AgentId, Counts, Lease, Membership, Mono, Outcome, Phase, PhaseTimes, Policy, Progress, PushAddress, Relations,
    Round, RunResult, Session, StepPlace, TaskFiles, TaskId, Term, ToolDigest, ToolName, Wall,
};

/// All data about one task. Cloning is cheap: the large parts are shared.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRecord {
    /// Id of the task.
    pub id: TaskId,
    /// Name of the tool.
    pub tool: ToolName,
    /// The version of the tool at the time when the task was accepted, if the controller held one.
    pub pin: Option<ToolDigest>,
    /// The files that travel with it, if it names any; part of its submitted fields.
    pub files: Option<Arc<TaskFiles>>,
    /// The submitted fields, as the members of a JSON object without the braces: `"a":1,"b":"x"`.
    pub submitted: Arc<str>,
    /// Address that changes of its state are pushed to: `__ADDRESS__`.
    pub address: Option<Arc<PushAddress>>,
    /// The task whose end ends this one.
    pub parent: Option<TaskId>,
    /// Moment of acceptance.
    pub submitted_at: Wall,
    /// Number of runs before the current one.
    pub round: Round,
    /// Policy that its submitter demands.
    pub policy: Arc<Policy>,
    /// Its job and its dependencies, if it has any.
    pub relations: Option<Arc<Relations>>,
    /// The terms of [`Relations::after`] that have not been met, by index. It does not start before all are met.
    pub unmet: Vec<u16>,
    /// The used part of each budget of the policy.
    pub counts: Counts,
    /// Number of changes of its state that have been published: `__SEQ__` of the latest one.
    pub pushes: u32,
    /// The kill that is ending its current run, or has ended the task. Boxed, because most tasks are never killed.
    pub kill: Option<Box<Kill>>,
    /// Whether its last run was given up while its agent was silent, so that processes of it may still run there.
    pub unconfirmed: bool,
    /// Since when a client keeps it from starting.
    pub held: Option<Wall>,
    /// Whether the receiver has confirmed the push of its end.
    pub acknowledgement: Acknowledgement,
    /// The earlier rounds, oldest first; at most [`TaskRecord::PAST_ROUNDS_MAX`].
    pub past: Vec<PastRound>,
    /// Rounds up to this moment that ended because their agent was unfit no longer keep it from that agent. Not stored:
    /// it follows from their times.
    pub agents_trusted: Wall,
    /// Its phase, with the data of that phase.
    pub state: TaskState,
}

impl TaskRecord {
    /// Maximum number of past rounds. The oldest are dropped.
    pub const PAST_ROUNDS_MAX: usize = 20;

    /// A task that was just accepted and waits for its first round, without address and relations.
    #[must_use]
    pub fn accepted(id: TaskId, tool: ToolName, submitted: Arc<str>, policy: Arc<Policy>, at: Wall) -> Self {
        let policy = policy.accepted(at);
        Self {
            id,
            tool,
            pin: None,
            files: None,
            submitted,
            address: None,
            parent: None,
            submitted_at: at,
            round: Round::default(),
            state: TaskState::Waiting { not_before: policy.start_after.filter(|start| *start > at) },
            policy,
            relations: None,
            unmet: Vec::new(),
            counts: Counts::default(),
            pushes: 0,
            kill: None,
            unconfirmed: false,
            held: None,
            acknowledgement: Acknowledgement::None,
            past: Vec::new(),
            agents_trusted: Wall::default(),
        }
    }

    /// The phase of the task. A task whose run is out of contact is waiting for another round.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.state.phase()
    }

    /// The state to store. A run that is out of contact is stored as it was, because the next controller has to hear
    /// from its agent, too.
    #[must_use]
    pub fn stored_state(&self) -> &TaskState {
        match &self.state {
            TaskState::OutOfContact { was, .. } => was,
            state => state,
        }
    }

    /// Whether its agent is silent, and may come back with the run.
    #[must_use]
    pub const fn is_out_of_contact(&self) -> bool {
        matches!(self.state, TaskState::OutOfContact { .. })
    }

    /// Its membership in its job, if it has one.
    #[must_use]
    pub fn membership(&self) -> Option<&Membership> {
        self.relations.as_deref()?.job.as_ref()
    }

    /// Its position in a step graph, if it is a task of a step.
    #[must_use]
    pub fn place(&self) -> Option<&StepPlace> {
        self.relations.as_deref()?.step.as_ref()
    }

    /// The phase that clients see. A task that has not started in an agent's list is waiting, and a run that is out of
    /// contact keeps its phase until another round begins.
    #[must_use]
    pub fn shown_phase(&self) -> Phase {
        match self.stored_state() {
            TaskState::Dispatched(run) if run.ahead.is_some() => Phase::Waiting,
            state => state.phase(),
        }
    }

    /// The terms that it was submitted with.
    #[must_use]
    pub fn after(&self) -> &[Term] {
        self.relations.as_deref().map_or(&[], |relations| &relations.after)
    }

    /// The first term that has not been met.
    #[must_use]
    pub fn first_unmet(&self) -> Option<&Term> {
        self.unmet.first().and_then(|number| self.after().get(usize::from(*number)))
    }

    /// Whether new children are refused, because its current run is ending or has ended.
    #[must_use]
    pub fn gets_no_children(&self) -> bool {
        self.stored_state().phase() >= Phase::Ended || self.kill.is_some()
    }

    /// Bytes of memory that the task costs: its parameters and the results of all its rounds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let past = self.past.iter().filter_map(|past| past.result.as_ref());
        let results = self.result().into_iter().chain(past).map(|result| result.bytes());
        let relations = self.relations.as_ref().map_or(0, |relations| relations.bytes());
        size_of::<Self>() + self.submitted.len() + relations + results.sum::<usize>()
    }

    /// The current run, or the run whose result ended the task: the one that its agent reports on.
    #[must_use]
    pub fn assignment(&self) -> Option<&Assignment> {
        match &self.state {
            TaskState::Finished { run: Some((_, None)), .. } | TaskState::OutOfContact { .. } => None,
            _ => self.last_run(),
        }
    }

    /// The time that its last run took, or has taken yet; `None` before that begins.
    #[must_use]
    pub fn ran(&self, now: Wall) -> Option<Duration> {
        let times = self.last_run()?.times;
        Some(times.end.or(self.finished_at()).unwrap_or(now).since(times.run?))
    }

    /// When it finished: by the clock of its agent, if that has told it.
    #[must_use]
    pub fn finished_at(&self) -> Option<Wall> {
        match self.state {
            TaskState::Finished { at, .. } => Some(self.last_run().and_then(|run| run.times.finish).unwrap_or(at)),
            _ => None,
        }
    }

    /// The current run, or the last one before the end, whatever its result.
    #[must_use]
    pub fn last_run(&self) -> Option<&Assignment> {
        match self.stored_state() {
            TaskState::Waiting { .. } | TaskState::OutOfContact { .. } => None,
            TaskState::Dispatched(assignment)
            | TaskState::Preparing(assignment)
            | TaskState::Running(assignment)
            | TaskState::Ended { assignment, .. } => Some(assignment),
            TaskState::Finished { run, .. } => match run {
                Some((assignment, _)) => Some(assignment),
                None => None,
            },
        }
    }

    /// The lease of its current run, if the task is exclusive.
    #[must_use]
    pub fn lease(&self) -> Option<&Lease> {
        self.last_run().and_then(|run| run.lease.as_deref())
    }

    /// How long updates about its current or last run may be delayed for batching.
    #[must_use]
    pub fn batch_delay(&self) -> Duration {
        self.last_run().map(|run| run.batch_delay).unwrap_or_default()
    }

    /// The result of the run, once it is known.
    #[must_use]
    pub fn result(&self) -> Option<&Arc<RunResult>> {
        match self.stored_state() {
            TaskState::Ended { result, .. } => result.as_ref(),
            TaskState::Finished { run: Some((_, result)), .. } => result.as_ref(),
            TaskState::Waiting { .. }
            | TaskState::OutOfContact { .. }
            | TaskState::Dispatched(_)
            | TaskState::Preparing(_)
            | TaskState::Running(_)
            | TaskState::Finished { run: None, .. } => None,
        }
    }
}

/// The phase of a task together with the data of that phase.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskState {
    /// In the queue.
    Waiting {
        /// Earliest start.
        not_before: Option<Wall>,
    },
    /// Its agent is silent. The task is queued for another round, but stays in its current round until that begins: if
    /// the agent comes back first, the run continues.
    OutOfContact {
        /// The state of the run when its agent was last heard.
        was: Box<TaskState>,
        /// The moment at which its agent was taken for lost.
        since: Wall,
        /// Earliest start of another round.
        not_before: Option<Wall>,
        /// Whether another round is held back, because the controller may itself be cut off.
        suspected: bool,
    },
    /// Handed to an agent.
    Dispatched(Box<Assignment>),
    /// Being prepared by the agent.
    Preparing(Box<Assignment>),
    /// Being run by the agent.
    Running(Box<Assignment>),
    /// run.sh has ended.
    Ended {
        /// The run that ended.
        assignment: Box<Assignment>,
        /// Its result, unless the agent sends it with its last report.
        result: Option<Arc<RunResult>>,
    },
    /// Only the record is left.
    Finished {
        /// Moment of the end.
        at: Wall,
        /// Final outcome.
        outcome: Outcome,
        /// The last run and its result, as far as they are known.
        run: Option<(Box<Assignment>, Option<Arc<RunResult>>)>,
    },
}

impl TaskState {
    /// The phase; see [`TaskRecord::phase`].
    #[must_use]
    pub const fn phase(&self) -> Phase {
        match self {
            Self::Waiting { .. } | Self::OutOfContact { .. } => Phase::Waiting,
            Self::Dispatched(_) => Phase::Dispatched,
            Self::Preparing(_) => Phase::Preparing,
            Self::Running(_) => Phase::Running,
            Self::Ended { .. } => Phase::Ended,
            Self::Finished { .. } => Phase::Finished,
        }
    }

    /// The run of a task that an agent has.
    #[must_use]
    pub fn into_run(self) -> Option<Box<Assignment>> {
        match self {
            Self::Dispatched(run) | Self::Preparing(run) | Self::Running(run) | Self::Ended { assignment: run, .. } => {
                Some(run)
            }
            Self::OutOfContact { was, .. } => was.into_run(),
            Self::Waiting { .. } | Self::Finished { .. } => None,
        }
    }
}

/// The address of a machine.
pub type HostAddress = IpAddr;

/// The address in a text, if it belongs to another machine.
#[must_use]
pub fn address_elsewhere(text: &str) -> Option<HostAddress> {
    text.parse().ok().filter(|address: &HostAddress| !address.to_canonical().is_loopback())
}

/// One round of a task on one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The agent that has the run.
    pub agent: AgentId,
    /// Moment at which the agent got it.
    pub dispatched_at: Wall,
    /// The same on this controller's monotonic clock; `None` if an earlier controller dispatched it. Not stored.
    pub dispatched: Option<Mono>,
    /// Whether the agent gets the task only after the store has committed the dispatch. Not stored.
    pub after_commit: bool,
    /// How long updates about this run may be delayed for batching. Not stored.
    pub batch_delay: Duration,
    /// The times that the agent has reported.
    pub times: PhaseTimes,
    /// The lease of an exclusive run. Boxed, because most runs have none.
    pub lease: Option<Box<Lease>>,
    /// Its place in its agent's list, after a task that has not ended.
    pub ahead: Option<Box<ListPlace>>,
    /// The address of its agent's machine, if that is not the controller's.
    pub host: Option<HostAddress>,
    /// The progress that the run reports, until it ends. Not stored. Boxed, because most runs report none.
    pub progress: Option<Box<ToldProgress>>,
}

/// The latest progress that a run has reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldProgress {
    /// The progress.
    pub progress: Progress,
    /// The moment at which it arrived.
    pub at: Wall,
    /// The stored upper bound of [`TaskRecord::pushes`], so that no number is used again after a restart.
    pub stored_pushes: u32,
}

/// The place of a task in its agent's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPlace {
    /// The number of the list.
    pub list: u64,
    /// The number of tasks before it in the list.
    pub place: u32,
}

impl Assignment {
    /// Whether this agent has the run and, if the run holds a lease, in this session.
    #[must_use]
    pub fn is_with(&self, agent: &AgentId, session: Session) -> bool {
        self.agent == *agent && self.lease.as_ref().is_none_or(|lease| lease.session == session)
    }
}

/// A requested kill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Moment of the request.
    pub at: Wall,
    /// Its cause.
    pub cause: KillCause,
}

/// The cause of a kill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KillCause {
    /// A TASK/KILL, with the reason that its sender gave.
    Client(Option<Arc<str>>),
    /// The run of this ancestor ended.
    ParentEnded(TaskId),
    /// `__END_BEFORE__` has passed.
    Expired,
    /// The time limit of the run has passed. It is the only cause that allows another round.
    TimedOut,
    /// It waited for something that cannot happen, as this sentence says.
    Skipped(Arc<str>),
    /// Its step graph is ending, as this sentence says.
    GraphEnds(Arc<str>),
    /// The store could not take its submit, which was refused.
    Unstored,
}

impl KillCause {
    /// Whether it ends the task, not only the run.
    #[must_use]
    pub const fn ends_the_task(&self) -> bool {
        !matches!(self, Self::TimedOut)
    }

    /// The outcome of a task that ends by this kill.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Client(_) | Self::ParentEnded(_) | Self::GraphEnds(_) | Self::Unstored => Outcome::Killed,
            Self::Expired => Outcome::Expired,
            Self::TimedOut => Outcome::TimedOut,
            Self::Skipped(_) => Outcome::Skipped,
        }
    }
}

impl fmt::Display for KillCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(None) => f.write_str("killed by a client"),
            Self::Client(Some(said)) => write!(f, "killed by a client: {said}"),
            Self::ParentEnded(parent) => write!(f, "its ancestor {parent} ended"),
            Self::Expired => f.write_str("the task had reached its end-before time"),
            Self::TimedOut => f.write_str("the run took too long"),
            Self::Skipped(why) | Self::GraphEnds(why) => f.write_str(why),
            Self::Unstored => f.write_str("the store could not take its submit"),
        }
    }
}

/// A finished round that was followed by another one.
#[derive(Clone, Debug, PartialEq)]
pub struct PastRound {
    /// Number of the round.
    pub round: Round,
    /// Moment of its end.
    pub at: Wall,
    /// Why another round followed.
    pub end: RoundEnd,
    /// The run, unless the round ended without one.
    pub assignment: Option<Box<Assignment>>,
    /// Result of the run, if it is known; its texts are shortened to [`PastRound::TAIL_BYTES_MAX`] each.
    pub result: Option<Arc<RunResult>>,
}

impl PastRound {
    /// Bytes kept of each text of a past round: enough to see why it failed.
    pub const TAIL_BYTES_MAX: usize = 2000;
}

/// Why a round was followed by another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundEnd {
    /// run.sh failed.
    Failed,
    /// The run timed out.
    TimedOut,
    /// Its agent was lost.
    Lost,
    /// run.sh asked to be run again later.
    Deferred,
    /// Its agent left, or came back without the run.
    Returned,
    /// A client asked for another round.
    Retried,
    /// Its agent lacks the tool, and another agent has it.
    NoTool,
    /// The disk of its agent is full, and another agent may run it.
    DiskFull,
    /// Its agent's machine lacks the folder of its command, or its client, and an agent on another machine may run it.
    NotHere,
}

/// Whether the receiver has confirmed the push of the end of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledgement {
    /// Not confirmed, or no confirmation was requested.
    #[default]
    None,
    /// The receiver confirmed it at this moment.
    Received(Wall),
    /// The time for the confirmation had passed at this moment.
    GivenUp(Wall),
}
