//! The events of a step graph. Steps and ports are identified by number.

use std::sync::Arc;

use super::Wall;

/// The number of a step in its graph, in the order of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepIndex(pub u32);

impl StepIndex {
    /// The index of the step in a list of all steps.
    #[must_use]
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// What a task of a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskRole {
    /// It processes the main inputs.
    Main,
    /// It processes this sub input.
    Prepare(u32),
}

/// The position of a task in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepTask {
    /// The step.
    pub step: StepIndex,
    /// What the task does.
    pub role: TaskRole,
    /// Its number among the tasks of this step and role, from 0.
    pub number: u32,
}

/// Something that happens to a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphEvent {
    /// A main task announces a location while it runs.
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
    /// A step must end early.
    Complete(StepIndex),
    /// The whole graph must end, for this reason.
    Kill(Arc<str>),
}

/// The end of a task, after its last round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskEnd {
    /// Why it did not succeed, with the id of the task. A task that was told to end has not failed.
    pub failure: Option<Arc<str>>,
    /// Its last round.
    pub round: u32,
    /// The announcements of its files: for each output that has a file, its number and the lines.
    pub provided: Vec<(u32, Vec<Arc<str>>)>,
}

/// An event as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphEntry {
    /// The moment of the event.
    pub at: Wall,
    /// The event.
    pub event: GraphEvent,
    /// The tasks that the event ended before they had begun.
    pub dropped: Vec<StepTask>,
}
