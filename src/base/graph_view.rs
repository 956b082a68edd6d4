//! Step graphs as clients see them: the state of a graph or a step, and a change of either.

use std::sync::Arc;

use super::{
    GraphId, GraphStatus, Phase, PortActivity, PortName, PushAddress, Scalar, StepName, StepState, TaskId, ToolName,
    Wall,
};

/// The state of a graph at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphView {
    /// Its id.
    pub id: GraphId,
    /// The name in its document.
    pub name: Option<String>,
    /// The id chosen by its submitter.
    pub given_id: Option<Scalar>,
    /// Its status.
    pub status: GraphStatus,
    /// Why it is ending, or has ended, without success.
    pub reason: Option<String>,
    /// Moment of acceptance.
    pub submitted_at: Wall,
    /// Moment of its end.
    pub ended_at: Option<Wall>,
    /// Number of its steps in each state, in the order of [`StepState::ALL`].
    pub steps: [usize; StepState::ALL.len()],
}

/// The state of a step at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct StepView {
    /// Its name.
    pub name: StepName,
    /// Its state.
    pub state: StepState,
    /// The tool of its tasks; an exchange has none.
    pub tool: Option<ToolName>,
    /// Its main inputs.
    pub inputs: Vec<InputView>,
    /// Its sub inputs.
    pub sub_inputs: Vec<InputView>,
    /// Its outputs with their activity.
    pub outputs: Vec<(PortName, PortActivity)>,
    /// What keeps it from its next state.
    pub holdup: Option<StepHoldup>,
    /// Its tasks with their phases; at most [`Self::TASKS_MAX`] of them.
    pub tasks: Vec<(Phase, TaskId)>,
    /// Number of its tasks.
    pub task_count: usize,
    /// The moments at which it reached each state, in the order of [`StepState::ALL`].
    pub times: [Option<Wall>; StepState::ALL.len()],
}

impl StepView {
    /// Maximum number of tasks shown for one step. TASK/DETAILS lists the others.
    pub const TASKS_MAX: usize = 1_000;
}

/// What keeps a step of a graph from its next state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepHoldup {
    /// This step, which is still CREATED.
    Activation(StepName),
    /// An input that takes an output of this step, which is not COMPLETED.
    Input(PortName, StepName),
    /// Its own tasks, some of which have not finished.
    Tasks,
}

/// An input of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct InputView {
    /// Its name.
    pub name: PortName,
    /// Its activity.
    pub activity: PortActivity,
    /// The outputs that it takes, each as step and port.
    pub sources: Vec<(StepName, PortName)>,
}

/// A change of a graph for its receiver and for subscribers.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphChange {
    /// The graph.
    pub graph: GraphId,
    /// 1 for the first change of the graph, increasing by one.
    pub seq: u64,
    /// The step and its state; `None` for the end of the graph.
    pub step: Option<(StepName, StepState)>,
    /// The status of the graph.
    pub status: GraphStatus,
    /// Why it has ended without success.
    pub reason: Option<Arc<str>>,
    /// The address to push it to.
    pub address: Option<Arc<PushAddress>>,
}
