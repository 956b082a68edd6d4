//! Jobs: the name that many tasks share, and the state of them all.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::checked::checked_text;
use super::{GraphId, Outcome, Phase, PortName, PushAddress, StepName, Term, Wall};

/// The name of a job: `__JOB__`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobName(Arc<str>);

/// A text that is not the name of a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the name of a job: use 1 to {max} characters of A-Z a-z 0-9 . _ -, and not __ first", max = JobName::BYTES_MAX)]
pub struct InvalidJobName(String);

impl JobName {
    /// Longest name.
    pub const BYTES_MAX: usize = 64;

    /// Checks a text and makes it a name.
    ///
    /// # Errors
    /// When the text is empty, too long, begins with two underscores, or holds a character outside the allowed set.
    pub fn new(text: &str) -> Result<Self, InvalidJobName> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        // Names with this prefix are keys of the service, and a list of jobs uses job names as keys.
        let ours = text.starts_with("__");
        if (1..=Self::BYTES_MAX).contains(&text.len()) && !ours && text.bytes().all(allowed) {
            return Ok(Self(text.into()));
        }
        Err(InvalidJobName(text.chars().take(Self::BYTES_MAX).collect()))
    }
}

checked_text!(JobName);

/// The relations of a task to other tasks. A task without a job and without dependencies has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relations {
    /// The job that it belongs to.
    pub job: Option<Membership>,
    /// The terms that must be met before it starts, without duplicates: `__AFTER__`.
    pub after: Vec<Term>,
    /// The position of the task in a step graph, if it belongs to a step.
    pub step: Option<StepPlace>,
}

/// The position of a task in a step graph, by names. [`super::StepTask`] has it by numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPlace {
    /// The graph.
    pub graph: GraphId,
    /// The step.
    pub step: StepName,
    /// The sub input that the task prepares; a main task has none.
    pub prepares: Option<PortName>,
    /// Its number among the tasks of this step and role, from 0.
    pub partition: u32,
}

impl Relations {
    /// Bytes of memory that they cost, including the index entries of the terms.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        size_of::<Self>() + self.after.len() * (2 * size_of::<Term>())
    }
}

/// The membership of a task in a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Name of the job.
    pub name: JobName,
    /// The number of failed tasks at which the job stops: `__JOB_MAX_FAILS__`.
    pub fails_max: Option<u32>,
    /// Whether the state of the job is pushed to the address of the task: `__JOB_PUSH__`.
    pub is_pushed: bool,
}

/// Run times of the tasks of a job, accurate to five percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunTimes {
    /// Half of the runs took at most this.
    pub p50: Duration,
    /// Nine of ten runs took at most this.
    pub p90: Duration,
    /// The longest run.
    pub max: Duration,
}

/// The state of a job at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    /// Name of the job.
    pub name: JobName,
    /// Number of its tasks in each phase, in the order of [`Phase::ALL`].
    pub phases: [usize; Phase::ALL.len()],
    /// Number of its finished tasks by outcome, in the order of [`Outcome::ALL`].
    pub outcomes: [usize; Outcome::ALL.len()],
    /// Moment of acceptance of its oldest known task.
    pub submitted_at: Wall,
    /// Moment at which its last task finished, if all have finished.
    pub ended_at: Option<Wall>,
    /// Run times of its finished tasks, if any of them ran.
    pub run_times: Option<RunTimes>,
    /// Why none of its tasks starts any more, if it was stopped.
    pub stopped: Option<JobStop>,
}

impl JobView {
    /// Number of its tasks.
    #[must_use]
    pub fn total(&self) -> usize {
        self.phases.iter().sum()
    }
}

/// The stop of a job whose tasks have failed too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobStop {
    /// Number of failed tasks at which it stopped.
    pub fails: u32,
}

impl fmt::Display for JobStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fails {
            1 => f.write_str("the job was stopped by its first failed task"),
            fails => write!(f, "the job was stopped by its {fails} failed tasks"),
        }
    }
}

/// The state of a job, for its receivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStatus {
    /// The state.
    pub view: JobView,
    /// 1 for the first status of the job, increasing by one, with gaps where a controller was killed.
    pub seq: u64,
    /// The addresses to push it to, each once.
    pub receivers: Vec<Arc<PushAddress>>,
}

/// The part of a job's state that does not follow from its tasks. It is stored separately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobMemo {
    /// The number of failed tasks at which the job stops.
    pub fails_max: Option<u32>,
    /// Why none of its tasks starts any more.
    pub stopped: Option<JobStop>,
    /// Only failures from this moment on count.
    pub counted_from: Wall,
    /// No [`JobStatus::seq`] has exceeded this number.
    pub seq_max: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_forges_no_key() {
        for text in ["a", "a.b_c-D9", &"x".repeat(64), "_a"] {
            assert_eq!(JobName::new(text).unwrap().as_str(), text);
        }
        for text in ["", "__a", "a/b", "a b", "é", "a:b", &"x".repeat(65)] {
            assert!(JobName::new(text).is_err(), "{text:?}");
        }
    }
}
