//! The reason that holds a step up: the first neighbour in the way of its next transition.

use super::Scheduler;
use crate::graph::plan::InputId;
use crate::graph::slots::Slots;
use base::{StepHoldup, StepIndex, StepState};

impl Scheduler {
    /// The reason that keeps a step from its next state; `None` if it is COMPLETED.
    #[must_use]
    pub fn holdup(&self, step: StepIndex) -> Option<StepHoldup> {
        let run = &self.steps[step.at()];
        let has_tasks = !run.main.have_ended() || run.prepare.iter().any(Slots::has_running);
        let of_tasks = || has_tasks.then_some(StepHoldup::Tasks);
        match run.state {
            StepState::Created => self.created_upstream(step),
            StepState::Activated | StepState::Preparing => self.open_input(step, true).or_else(of_tasks),
            StepState::Prepared => self.created_downstream(step).or_else(|| self.open_input(step, false)),
            StepState::Running | StepState::Completing => of_tasks().or_else(|| self.open_input(step, false)),
            StepState::Completed | StepState::Deactivated => None,
        }
    }

    fn activation(&self, steps: impl Iterator<Item = StepIndex>) -> Option<StepHoldup> {
        let mut created = steps.filter(|step| self.state(*step) == StepState::Created);
        created.next().map(|step| StepHoldup::Activation(self.graph.step(step).name.clone()))
    }

    fn created_upstream(&self, step: StepIndex) -> Option<StepHoldup> {
        let sources = self.graph.step(step).inputs.iter().flat_map(|input| &input.sources);
        self.activation(sources.map(|source| source.step))
    }

    fn created_downstream(&self, step: StepIndex) -> Option<StepHoldup> {
        let sinks = self.graph.step(step).outputs.iter().flat_map(|output| &output.sinks);
        self.activation(sinks.map(|sink: &InputId| sink.step))
    }

    /// The first main input, or sub input, with a source that is not COMPLETED.
    fn open_input(&self, step: StepIndex, is_sub: bool) -> Option<StepHoldup> {
        let plan = self.graph.step(step);
        let inputs = plan.inputs.iter().zip(0..).filter(|(_, number)| plan.is_sub(*number) == is_sub);
        let mut open = inputs.filter_map(|(input, _)| {
            let source = input.sources.iter().find(|source| self.state(source.step) < StepState::Completed)?;
            Some(StepHoldup::Input(input.name.clone(), self.graph.step(source.step).name.clone()))
        });
        open.next()
    }
}
