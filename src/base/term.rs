//! The terms of `__AFTER__`, which a task waits for besides its turn.

use std::fmt;

use super::{JobName, Outcome, TaskId};

/// One term: the end of a task, or of the tasks of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term {
    /// The end that meets it.
    pub wanted: Wanted,
    /// The task or job that must end like that.
    pub of: Prior,
}

/// The end that meets a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wanted {
    /// Success; for a job, of every task that it had when the term was accepted.
    Success,
    /// Any end; for a job, of every such task.
    End,
    /// A failure; for a job, of one such task.
    Failure,
}

impl Wanted {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Success, Self::End, Self::Failure];

    /// The prefix of a term.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Success => "",
            Self::End => "any:",
            Self::Failure => "failed:",
        }
    }

    /// Whether this outcome of a task meets a term about that task. A skipped task has neither succeeded nor failed.
    #[must_use]
    pub const fn is_met_by(self, outcome: Outcome) -> bool {
        match self {
            Self::Success => matches!(outcome, Outcome::Succeeded),
            Self::End => true,
            Self::Failure => outcome.is_failure(),
        }
    }
}

/// The subject of a term.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Prior {
    /// One task.
    Task(TaskId),
    /// The tasks of a job that are older than the waiting task.
    Job(JobName),
}

impl Prior {
    /// The prefix of a job's name in a term.
    pub const JOB: &'static str = "job:";
}

/// As on the wire.
impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.wanted.prefix())?;
        match &self.of {
            Prior::Task(task) => fmt::Display::fmt(task, f),
            Prior::Job(name) => write!(f, "{}{name}", Prior::JOB),
        }
    }
}
