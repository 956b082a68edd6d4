//! The record of a task: what the controller knows of it, and what is stored and shown.

use std::fmt;
use std::sync::Arc;

use std::time::Duration;

use super::{
    AgentId, Counts, ExitCode, Labels, Lease, Mono, Outcome, Policy, PushAddress, Round, Session, TaskId, ToolName,
    Wall,
};

/// The phase of a task (document, sections 2.3 and 2.5), in order. A phase goes back only by a new round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// In the queue.
    Waiting,
    /// Handed to an agent that has not said anything of it yet.
    Dispatched,
    /// The agent makes the work folder and unpacks the tool.
    Preparing,
    /// run.sh runs.
    Running,
    /// run.sh has ended; its result is known; the agent cleans up.
    Ended,
    /// Nothing is left of it but the record.
    Finished,
}

impl Phase {
    /// All phases, in order.
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Dispatched, Self::Preparing, Self::Running, Self::Ended, Self::Finished];
}

/// What is known of one task. Cloning is cheap: the large parts are shared.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskRecord {
    /// Its id.
    pub id: TaskId,
    /// The tool that it runs.
    pub tool: ToolName,
    /// What was submitted, as the members of a JSON object without the braces: `"a":1,"b":"x"`.
    pub submitted: Arc<str>,
    /// Where changes of its state are pushed to: `__ADDRESS__`.
    pub address: Option<Arc<PushAddress>>,
    /// The task whose end ends this one.
    pub parent: Option<TaskId>,
    /// When it was accepted.
    pub submitted_at: Wall,
    /// How many runs came before the present one.
    pub round: Round,
    /// What its submitter demands of its life.
    pub policy: Arc<Policy>,
    /// How often each budget of the policy was drawn on.
    pub counts: Counts,
    /// How many changes of its state have been told: `__SEQ__` of the latest one.
    pub pushes: u32,
    /// What ends its present run, or has ended the task.
    pub kill: Option<Kill>,
    /// Its last run was given up while its agent was not heard: processes of it may be left there.
    pub unconfirmed: bool,
    /// Since when it must not start, because somebody said so.
    pub held: Option<Wall>,
    /// Whether the end of it has arrived where it is pushed to.
    pub acknowledgement: Acknowledgement,
    /// The rounds before the present one, oldest first; at most [`TaskRecord::PAST_ROUNDS_MAX`] of them.
    pub past: Vec<PastRound>,
    /// Its phase, with the data that is true in it.
    pub state: TaskState,
}

impl TaskRecord {
    /// How many rounds are kept; of more, the oldest are forgotten.
    pub const PAST_ROUNDS_MAX: usize = 20;

    /// The phase that the task is in.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        match self.state {
            TaskState::Waiting { .. } => Phase::Waiting,
            TaskState::Dispatched(_) => Phase::Dispatched,
            TaskState::Preparing(_) => Phase::Preparing,
            TaskState::Running(_) => Phase::Running,
            TaskState::Ended { .. } => Phase::Ended,
            TaskState::Finished { .. } => Phase::Finished,
        }
    }

    /// Whether its present run is ending or has ended, and its children with it.
    #[must_use]
    pub fn gets_no_children(&self) -> bool {
        self.phase() >= Phase::Ended || self.kill.is_some()
    }

    /// Bytes of memory that the task costs: its parameters and the results of all its rounds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let past = self.past.iter().filter_map(|past| past.result.as_ref());
        let results = self.result().into_iter().chain(past).map(|result| result.bytes());
        size_of::<Self>() + self.submitted.len() + results.sum::<usize>()
    }

    /// The run that the task is in, or whose result it ended with: that of which its agent is heard.
    #[must_use]
    pub const fn assignment(&self) -> Option<&Assignment> {
        match &self.state {
            TaskState::Finished { run: Some((_, None)), .. } => None,
            _ => self.last_run(),
        }
    }

    /// The run that the task is in, or was in when it ended, whatever came of it.
    #[must_use]
    pub const fn last_run(&self) -> Option<&Assignment> {
        match &self.state {
            TaskState::Waiting { .. } => None,
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

    /// What holds its present run, if it is an exclusive one.
    #[must_use]
    pub fn lease(&self) -> Option<&Lease> {
        self.last_run().and_then(|run| run.lease.as_deref())
    }

    /// How late what is said of its present or last run may be.
    #[must_use]
    pub fn batch_delay(&self) -> Duration {
        self.last_run().map(|run| run.batch_delay).unwrap_or_default()
    }

    /// The result of the run, once there is one.
    #[must_use]
    pub const fn result(&self) -> Option<&Arc<RunResult>> {
        match &self.state {
            TaskState::Ended { result, .. } => result.as_ref(),
            TaskState::Finished { run: Some((_, result)), .. } => result.as_ref(),
            TaskState::Waiting { .. }
            | TaskState::Dispatched(_)
            | TaskState::Preparing(_)
            | TaskState::Running(_)
            | TaskState::Finished { run: None, .. } => None,
        }
    }
}

/// The phase of a task together with what is known in it.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskState {
    /// In the queue.
    Waiting {
        /// It does not start before.
        not_before: Option<Wall>,
    },
    /// Handed to an agent.
    Dispatched(Box<Assignment>),
    /// Being prepared by it.
    Preparing(Box<Assignment>),
    /// Being run by it.
    Running(Box<Assignment>),
    /// run.sh has ended.
    Ended {
        /// Who ran it.
        assignment: Box<Assignment>,
        /// How it ended, unless the agent keeps that for its last report.
        result: Option<Arc<RunResult>>,
    },
    /// Nothing is left but the record.
    Finished {
        /// When.
        at: Wall,
        /// What became of it.
        outcome: Outcome,
        /// The run that it was in, with the result, if that is known.
        run: Option<(Box<Assignment>, Option<Arc<RunResult>>)>,
    },
}

/// One round of a task on one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Who has it.
    pub agent: AgentId,
    /// When the agent got it.
    pub dispatched_at: Wall,
    /// The same by the steady clock of this controller; `None` if a former one handed it out. It is not stored.
    pub dispatched: Option<Mono>,
    /// Whether its agent may be told only when that it has the task is stored. It is not stored itself.
    pub after_commit: bool,
    /// How late what is said of it may be, because others wait as well. It is not stored.
    pub batch_delay: Duration,
    /// What the agent has said of it so far.
    pub times: PhaseTimes,
    /// What holds the run of an exclusive task. Boxed: most have none.
    pub lease: Option<Box<Lease>>,
}

impl Assignment {
    /// Whether this is a run of that agent, and, if it holds a lease, of that very session of it.
    #[must_use]
    pub fn is_with(&self, agent: &AgentId, session: Session) -> bool {
        self.agent == *agent && self.lease.as_ref().is_none_or(|lease| lease.session == session)
    }
}

/// When a run reached its phases, by the clock of its agent. A run that was killed early skips some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseTimes {
    /// `__PREPARE_TIME__`
    pub prepare: Option<Wall>,
    /// `__RUN_TIME__`
    pub run: Option<Wall>,
    /// `__END_TIME__`
    pub end: Option<Wall>,
    /// `__FINISH_TIME__`
    pub finish: Option<Wall>,
}

/// Bytes that a run has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputBytes {
    /// To report.log.
    pub report: u64,
    /// To stdout.
    pub stdout: u64,
    /// To stderr.
    pub stderr: u64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct RunResult {
    /// What run.sh returned, or what ended it.
    pub exit_code: ExitCode,
    /// Why there is no exit code of run.sh itself: one sentence, empty when there is one.
    pub error: String,
    /// The end of report.log.
    pub report_tail: String,
    /// The end of stdout.
    pub stdout_tail: String,
    /// The end of stderr.
    pub stderr_tail: String,
    /// How much these three are the ends of, if the agent says so.
    pub output_bytes: Option<OutputBytes>,
    /// Processor time of run.sh and of the processes that it waited for, in seconds.
    pub cpu_seconds: f64,
    /// Peak resident memory of the largest process, in KiB.
    pub max_rss_kib: u64,
    /// How many processes were still there after run.sh and had to be ended.
    pub reaped: u32,
    /// Whether run.sh had ended before its agent sent it any signal.
    pub by_itself: bool,
    /// What a run that deferred asks for.
    pub defer: Option<Box<Defer>>,
}

impl RunResult {
    /// Bytes that keeping this result costs.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        size_of::<Self>() + self.error.len() + self.report_tail.len() + self.stdout_tail.len() + self.stderr_tail.len()
    }

    /// A result with nothing but its code.
    #[must_use]
    pub const fn of(exit_code: ExitCode, error: String) -> Self {
        Self {
            exit_code,
            error,
            report_tail: String::new(),
            stdout_tail: String::new(),
            stderr_tail: String::new(),
            output_bytes: None,
            cpu_seconds: 0.0,
            max_rss_kib: 0,
            reaped: 0,
            by_itself: false,
            defer: None,
        }
    }
}

/// A kill that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// When.
    pub at: Wall,
    /// By whom.
    pub cause: KillCause,
}

/// Who or what asked for a kill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KillCause {
    /// A TASK/KILL, with what its sender said of it.
    Client(Option<Arc<str>>),
    /// The run of this ancestor ended.
    ParentEnded(TaskId),
    /// The time for its whole life is over.
    Expired,
    /// The time for this run is over. The only cause after which another round may follow.
    TimedOut,
}

impl KillCause {
    /// Whether the task itself ends by it, not only its run.
    #[must_use]
    pub const fn ends_the_task(&self) -> bool {
        !matches!(self, Self::TimedOut)
    }
}

impl fmt::Display for KillCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(None) => f.write_str("killed by a client"),
            Self::Client(Some(said)) => write!(f, "killed by a client: {said}"),
            Self::ParentEnded(parent) => write!(f, "its ancestor {parent} ended"),
            Self::Expired => f.write_str("the time for its whole life was over"),
            Self::TimedOut => f.write_str("the run took too long"),
        }
    }
}

/// A round that is over and was not the last one.
#[derive(Clone, Debug, PartialEq)]
pub struct PastRound {
    /// Which one.
    pub round: Round,
    /// When it was over.
    pub at: Wall,
    /// Why another one followed.
    pub end: RoundEnd,
    /// Who ran it, unless it ended without a run.
    pub assignment: Option<Box<Assignment>>,
    /// How the run ended, if that is known; its texts are cut to [`PastRound::TAIL_BYTES_MAX`] each.
    pub result: Option<Arc<RunResult>>,
}

impl PastRound {
    /// Bytes that are kept of each text of a past round: enough to see why it failed.
    pub const TAIL_BYTES_MAX: usize = 2000;
}

/// Why a round was followed by another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundEnd {
    /// run.sh failed.
    Failed,
    /// It took too long.
    TimedOut,
    /// Its agent was lost.
    Lost,
    /// run.sh asked to be run again later.
    Deferred,
    /// Its agent left, or came back without it.
    Returned,
    /// Somebody asked for another round.
    Retried,
    /// Its agent had not its tool, which another agent has.
    NoTool,
}

/// Whether the end of a task has arrived where it is pushed to (design, section 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledgement {
    /// It has not, or nobody has asked.
    #[default]
    None,
    /// The receiver has confirmed it.
    Received(Wall),
    /// The time for that is over.
    GivenUp(Wall),
}

/// What a run that ended with [`ExitCode::DEFERRED`] asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Defer {
    /// How long to wait before the next round.
    pub retry_after: Option<Duration>,
    /// Gates that shall be closed for all for that time. Only those that the task itself names are.
    pub gates: Labels,
}
