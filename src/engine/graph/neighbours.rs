//! The neighbours that hold up a step, counted by connections, so that a change of one neighbour costs O(1).

use super::plan::Graph;
use base::{PortActivity, StepIndex, StepState};

/// The connections of a step whose other end holds it up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Neighbours {
    /// From steps that are CREATED.
    pub(super) upstream_created: u32,
    /// From steps that are not COMPLETED.
    pub(super) upstream_incomplete: u32,
    /// To any steps.
    pub(super) downstream: u32,
    /// To steps that are CREATED.
    pub(super) downstream_created: u32,
    /// To steps that are not COMPLETING.
    pub(super) downstream_going: u32,
    /// To steps that keep this one from DEACTIVATED.
    pub(super) downstream_holding: u32,
    /// Main inputs that are not completed.
    pub(super) main_open: u32,
    pub(super) inputs: Vec<InputSources>,
    /// For each output, the connections to steps that are CREATED.
    pub(super) outputs: Vec<u32>,
}

/// The sources of one input, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InputSources {
    /// Sources whose step has not reached RUNNING.
    pub(super) idle: u32,
    /// Sources whose step is not COMPLETED.
    pub(super) incomplete: u32,
    /// All of them.
    count: u32,
}

impl InputSources {
    pub(super) const fn activity(self) -> PortActivity {
        if self.incomplete == 0 {
            PortActivity::Completed
        } else if self.idle == self.count {
            PortActivity::Inactive
        } else {
            PortActivity::Active
        }
    }
}

impl Neighbours {
    /// Counts the connections of a step by the present states of the other steps.
    pub(super) fn count(graph: &Graph, step: StepIndex, state: impl Fn(StepIndex) -> StepState) -> Self {
        let plan = graph.step(step);
        let mut counted = Self::default();
        for (input, number) in plan.inputs.iter().zip(0..) {
            let mut sources = InputSources::default();
            for source in &input.sources {
                let state = state(source.step);
                sources.count += 1;
                sources.idle += u32::from(state < StepState::Running);
                sources.incomplete += u32::from(state < StepState::Completed);
                counted.upstream_created += u32::from(state == StepState::Created);
            }
            counted.upstream_incomplete += sources.incomplete;
            counted.main_open += u32::from(!plan.is_sub(number) && sources.incomplete > 0);
            counted.inputs.push(sources);
        }
        for output in &plan.outputs {
            let mut created = 0;
            for sink in &output.sinks {
                let state = state(sink.step);
                counted.downstream += 1;
                created += u32::from(state == StepState::Created);
                counted.downstream_going += u32::from(state < StepState::Completing);
                counted.downstream_holding += u32::from(state < releases(graph.step(sink.step).is_sub(sink.input)));
            }
            counted.downstream_created += created;
            counted.outputs.push(created);
        }
        counted
    }
}

/// The state in which a downstream step lets its upstream step go. A sub input has been processed as soon as its step is PREPARED.
pub(super) const fn releases(is_sub: bool) -> StepState {
    if is_sub { StepState::Prepared } else { StepState::Completed }
}
