//! What goes between the lists of a controller and their shell: instructions, questions to the controller, and its answers.

use crate::protocol::lists::agents::Sight;
use crate::protocol::lists::{Order, TaskResult};
use crate::types::lists::{ListTaskId, RunningName};
use crate::types::{Stream, TaskId};

/// An instruction to the shell.
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Claim an open list, if there is one; then [`super::Agents::handle_list`] or [`super::Agents::handle_no_list`].
    Claim,
    /// Ask the controller; then [`super::Agents::handle_answer`] with this number.
    Ask(u64, Question),
    /// Store the result of a task under this number; then [`super::Agents::handle_stored`].
    Report(RunningName, u64, TaskResult),
    /// Open the rest of a list again.
    GiveBack(RunningName),
}

/// A question to the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// How many agents are free?
    Free,
    /// Run the task of a list.
    Submit(RunningName, Order),
    /// How far is the task of a list, if it was submitted?
    Find(RunningName, ListTaskId),
    /// How far is a task?
    Look(TaskId),
    /// Keep a task from starting, or let it start.
    Hold(TaskId, bool),
    /// End a task, for this reason.
    Kill(TaskId, &'static str),
    /// The part of an output that begins at this byte, and has at most so many.
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
    Free(usize),
    /// To [`Question::Submit`]: the task, and whether it had been accepted before.
    Submitted(TaskId, bool),
    /// To [`Question::Find`] and [`Question::Look`].
    Seen(Sight),
    /// To an order.
    Done,
    /// To [`Question::Output`].
    Part(Part),
    /// To any of them.
    Refused {
        /// A sentence.
        reason: String,
        /// What may follow.
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
    /// Where its bytes begin.
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
