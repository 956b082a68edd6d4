//! What goes from the lists of a controller to their shell.

use crate::engine::hosted;
use crate::protocol::lists::{Order, TaskResult};
use crate::types::lists::{ListTaskId, RunningName};

/// A question about the tasks of lists.
pub type Question = hosted::Question<(RunningName, Order), (RunningName, ListTaskId)>;

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
