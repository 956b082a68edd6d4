//! The inputs and outputs of a map.

use api::wire::client::TaskView;
use api::wire::requests::submit::Submission;
use base::TaskId;

/// The options that a map needs to know.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// Whether outputs leave in the order of the lines.
    pub keeps_order: bool,
    /// The newest task that the job had before this run of the map.
    pub newest_before: Option<TaskId>,
}

/// A line that is ready to be submitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Its number, from 1.
    pub number: u64,
    /// The task.
    pub submission: Submission,
    /// The values that it was made of, for people.
    pub values: String,
}

impl Item {
    pub(super) fn bytes(&self) -> usize {
        self.submission.parameters.iter().map(|(_, value)| value.as_text().map_or(8, str::len)).sum()
    }
}

/// The next action of the caller.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Submit these tasks with one request.
    Submit {
        /// The number of the request, for the answer.
        frame: u64,
        /// The tasks.
        tasks: Vec<Submission>,
    },
    /// Begin to follow the ends of the job; [`Map::handle_following`](super::Map::handle_following) when that is answered.
    Follow,
    /// Ask for the task, parked until it has finished.
    Watch {
        /// The line.
        number: u64,
        /// The task.
        id: TaskId,
    },
    /// Query the task as it is now: it comes from an earlier run of the map, and may have finished there.
    Look {
        /// The line.
        number: u64,
        /// The task.
        id: TaskId,
    },
    /// Another round of a task that failed in an earlier run of the map.
    Retry {
        /// The line.
        number: u64,
        /// The task.
        id: TaskId,
    },
    /// Let a task start that is still held since an earlier run of the map was interrupted.
    Release {
        /// The task.
        id: TaskId,
    },
    /// Print the outputs of a task.
    Print(Box<Printed>),
    /// Hold the job, so that none of its tasks starts.
    Hold,
    /// Ask how many tasks of the job are with agents.
    CountRunning,
    /// Kill the tasks of the job.
    Kill,
}

/// The finished task of a line, to be printed.
#[derive(Clone, Debug, PartialEq)]
pub struct Printed {
    /// The line.
    pub number: u64,
    /// Its task.
    pub task: TaskView,
    /// The values that it was made of, for people.
    pub values: String,
}

/// Why a submit was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no room for now.
    NoRoom,
    /// Nothing more of this map is accepted.
    ForGood,
}
