//! The questions of a master to the controller that hosts it in its process, and the answers. The master is pure. Its shell turns
//! a question into a request, and the reply into an answer.

pub mod life;
pub mod questions;
pub mod reading;
pub mod task;

use crate::guest::task::Snapshot;
use base::{Stream, TaskId};

/// A question to the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question<Work, Known> {
    /// How many agents are free?
    Free,
    /// Run this.
    Submit(Work),
    /// How far is this run, if it was submitted?
    Find(Known),
    /// How far is a task?
    Look(TaskId),
    /// Keep a task from starting, or let it start.
    Hold(TaskId, bool),
    /// End a task, for this reason.
    Kill(TaskId, &'static str),
    /// Read a part of an output.
    Output {
        /// The task.
        task: TaskId,
        /// The number of its round.
        round: u64,
        /// The output.
        stream: Stream,
        /// The first byte.
        offset: u64,
        /// The largest number of bytes.
        bytes_max: u64,
    },
}

/// The answer of the controller.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Question::Free`].
    Agents {
        /// Agents without a task.
        free: usize,
        /// Agents with one.
        busy: usize,
    },
    /// To [`Question::Submit`]: the task, and whether it had been accepted before.
    Submitted(TaskId, bool),
    /// To [`Question::Find`] and [`Question::Look`].
    Seen(Snapshot),
    /// To [`Question::Hold`] and [`Question::Kill`].
    Done,
    /// To [`Question::Output`].
    Part(Part),
    /// To any of them.
    Refused {
        /// A sentence.
        reason: String,
        /// Whether another attempt makes sense.
        refusal: Refusal,
    },
}

/// The kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A later attempt may succeed.
    Passing,
    /// The controller does not know the task.
    Unknown,
    /// It will be refused again.
    Final,
}

/// A part of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The offset of the first byte in the output.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether nothing follows.
    pub is_end: bool,
    /// Why bytes are missing.
    pub missing: Option<String>,
    /// Whether the agent that has them may come back.
    pub is_absent: bool,
}
