//! The effects of the lists of a controller.

use crate::wire::{Order, TaskResult};
use api::guest;
use base::lists::{ListTaskId, RunningName};

/// A task of a list, to submit.
pub(super) type Work = (RunningName, Order);

/// A task of a list that may have been submitted.
pub(super) type Known = (RunningName, ListTaskId);

/// A question about the tasks of lists.
pub type Question = guest::Question<Work, Known>;

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
