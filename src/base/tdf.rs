//! TDF: ids of tasks and workers, names of workers, states, numbers, and the fence of a run.

pub mod number;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The id of a task: a value of the counter `task_id` of its namespace, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A text that is not the id of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a whole number from 1 on, without zeros in front")]
pub struct InvalidTaskId;

impl FromStr for TaskId {
    type Err = InvalidTaskId;

    fn from_str(text: &str) -> Result<Self, InvalidTaskId> {
        // A second form of a number would be a second key for the same task.
        let canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
        text.parse().ok().filter(|_| canonical).map(Self).ok_or(InvalidTaskId)
    }
}

/// The number that a namespace gives a worker at its first start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerId(pub u64);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The name of a worker, unique in its namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerName(Arc<str>);

/// A text that cannot name a worker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the worker name {0:?} must be 1 to {max} bytes without control characters and without /", max = WorkerName::BYTES_MAX)]
pub struct InvalidWorkerName(String);

impl WorkerName {
    /// Longest name. It is part of the names of output files, and a file name has at most 255 bytes.
    pub const BYTES_MAX: usize = 128;

    /// Checks a text and makes it a name.
    ///
    /// # Errors
    /// When the text is empty, too long, or could leave the folder of the output files or the line of a log.
    pub fn new(text: &str) -> Result<Self, InvalidWorkerName> {
        let fits = (1..=Self::BYTES_MAX).contains(&text.len());
        if fits && !text.contains(|letter: char| letter == '/' || letter.is_control()) {
            return Ok(Self(text.into()));
        }
        Err(InvalidWorkerName(text.chars().take(Self::BYTES_MAX).collect()))
    }

    /// The text of the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for WorkerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// The states of a task (docs/sources/tdf.md, 1). Each is a sorted set of ids.
///
/// `Timeout` and `Failure` are transient: the original exposes them between two moves, but llts passes through them
/// within a single move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Waits for a worker.
    Open,
    /// A worker has it.
    Running,
    /// A worker has reported; the server has not evaluated the result yet.
    Executed,
    /// A run took too long; the server has not decided what follows.
    Timeout,
    /// Runs took too long too often.
    TimedOut,
    /// It was not finished by `end_before`.
    Expired,
    /// The last run wrote nothing to stderr.
    Succeeded,
    /// A run wrote to stderr; the server has not decided what follows.
    Failure,
    /// Runs failed too often.
    Failed,
    /// The manager has handled it.
    Archived,
}

impl State {
    /// Every state, in the order in which people see them.
    pub const ALL: [Self; 10] = [
        Self::Open,
        Self::Running,
        Self::Executed,
        Self::Timeout,
        Self::TimedOut,
        Self::Expired,
        Self::Succeeded,
        Self::Failure,
        Self::Failed,
        Self::Archived,
    ];

    /// The states that a manager handles, in the order of the original's rounds.
    pub const ENDED: [Self; 4] = [Self::Succeeded, Self::Failed, Self::TimedOut, Self::Expired];
}

/// Identifies one run of a task. A message about the run counts only while all of this holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The task.
    pub task: TaskId,
    /// The round of the task, from 0.
    pub round: u32,
    /// The worker that claimed it.
    pub worker: WorkerName,
    /// The text of `R:running`.
    pub started: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_way_to_be_written() {
        assert_eq!("17".parse(), Ok(TaskId(17)));
        for text in ["", "0", "01", "+1", "-1", " 1", "1 ", "1.0", "18446744073709551616", "x"] {
            assert_eq!(text.parse::<TaskId>(), Err(InvalidTaskId), "{text:?}");
        }
    }

    #[test]
    fn a_name_stays_in_its_line_and_its_folder() {
        for text in ["worker-A", "worker-156.3.1.38", "größer", "a b", ".", "-"] {
            assert_eq!(WorkerName::new(text).unwrap().as_str(), text);
        }
        for text in ["", "a/b", "a\nb", "\u{7f}", &"x".repeat(129)] {
            assert!(WorkerName::new(text).is_err(), "{text:?}");
        }
    }
}
