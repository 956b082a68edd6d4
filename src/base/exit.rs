//! How a run ended: its exit code and its outcome.

use std::fmt;

/// `__EXIT_CODE__` (docs/sources/controller.md, 2.7): the exit code of run.sh, the negated number of the signal that ended it, or a
/// code for a run that never started or that its agent gave up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExitCode(pub i32);

impl ExitCode {
    /// run.sh returned 0.
    pub const SUCCESS: Self = Self(0);
    /// Killed during preparation.
    pub const KILLED_PREPARING: Self = Self(-128);
    /// There is no `<operation>.tar.gz`.
    pub const TOOL_MISSING: Self = Self(-129);
    /// `<operation>.tar.gz` cannot be unpacked.
    pub const UNPACK_FAILED: Self = Self(-130);
    /// Any other failure before run.sh started.
    pub const PREPARE_FAILED: Self = Self(-131);
    /// The agent has ended the run because its lease expired. The task counts this as a loss of the agent.
    pub const LEASE_OVER: Self = Self(-132);
    /// run.sh of a step returned 0, but the contents of `../provide` are invalid.
    pub const PROVIDE_INVALID: Self = Self(-133);
    /// The disk of the agent is too full to prepare the run. The task goes to another agent, or ends with
    /// [`Self::PREPARE_FAILED`].
    pub const DISK_FULL: Self = Self(-134);
    /// The agent's machine lacks the folder that the command names, or the client that offers its streams. The task
    /// goes to an agent on another machine, or ends with [`super::TaskCommand::NOT_STARTED`].
    pub const NOT_HERE: Self = Self(-135);
    /// A tool that stays has not answered as it must: not within the protocol, or with a value that is too long.
    pub const ANSWER_INVALID: Self = Self(-136);
    /// run.sh asks to be run again later: EX_TEMPFAIL.
    pub const DEFERRED: Self = Self(75);

    /// The exit code of a process that a signal ended. Signals are 1 to 64, so the result never collides with -128 to -136.
    #[must_use]
    pub const fn from_signal(signal: i32) -> Self {
        Self(-signal)
    }

    /// The signal that has ended the process; `None` if none has.
    #[must_use]
    pub const fn signal(self) -> Option<i32> {
        match self.0 {
            -64..=-1 => Some(-self.0),
            _ => None,
        }
    }
}

impl fmt::Display for ExitCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The final outcome of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The run succeeded.
    Succeeded,
    /// The last run that its budget allows failed.
    Failed,
    /// The last run that its budget allows took too long.
    TimedOut,
    /// `__END_BEFORE__` has passed.
    Expired,
    /// A client, the end of the parent or an operator ended it.
    Killed,
    /// Its agents were lost more often than the budget allows.
    Lost,
    /// It never started: a term that it waited for cannot be met, or its job was stopped.
    Skipped,
}

impl Outcome {
    /// All outcomes, in the order of declaration.
    pub const ALL: [Self; 7] =
        [Self::Succeeded, Self::Failed, Self::TimedOut, Self::Expired, Self::Killed, Self::Lost, Self::Skipped];

    /// Whether tasks that wait for a failure may start.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        match self {
            Self::Failed | Self::TimedOut | Self::Expired | Self::Killed | Self::Lost => true,
            Self::Succeeded | Self::Skipped => false,
        }
    }

    /// Whether people count it as failed. A kill is intended, and is counted separately.
    #[must_use]
    pub const fn counts_as_failed(self) -> bool {
        self.is_failure() && !matches!(self, Self::Killed)
    }
}
