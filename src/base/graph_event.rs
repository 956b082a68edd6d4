//! The events of a step graph, by the numbers of its steps and ports.

use std::sync::Arc;

use super::Wall;

/// The number of a step in its graph, in the order of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepIndex(pub u32);

impl StepIndex {
    /// The place of the step in a list of all steps.
    #[must_use]
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// What the task of a slot does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskRole {
    /// It processes the main inputs.
    Main,
    /// It processes this sub input.
    Prepare(u32),
}

/// The place of one task in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepTask {
    /// The step.
    pub step: StepIndex,
    /// What the task does.
    pub role: TaskRole,
    /// Its number among those of the step and the role, from 0.
    pub number: u32,
}

/// Something that happens to a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphEvent {
    /// A running main task announces a location at once.
    Announced {
        /// The task.
        slot: StepTask,
        /// Its round.
        round: u32,
        /// The number of the output of its step.
        output: u32,
        /// The location.
        location: Arc<str>,
    },
    /// A task has ended for good.
    Ended(StepTask, TaskEnd),
    /// A step is to end early.
    Complete(StepIndex),
    /// The whole graph is to end, for this reason.
    Kill(Arc<str>),
}

/// The end of a task, after its last round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskEnd {
    /// Why it has not succeeded, with the task. That is no failure of a task that was told to end.
    pub failure: Option<Arc<str>>,
    /// Its last round.
    pub round: u32,
    /// The announcements of its files: for each output that has a file, its number and the lines.
    pub provided: Vec<(u32, Vec<Arc<str>>)>,
}

/// An event as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphEntry {
    /// The moment.
    pub at: Wall,
    /// The event.
    pub event: GraphEvent,
    /// The tasks that the event told to end and that had not begun.
    pub dropped: Vec<StepTask>,
}
