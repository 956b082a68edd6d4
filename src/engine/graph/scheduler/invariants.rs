//! The invariants of a scheduler, which tests check after each step.

use super::{Scheduler, StepRun, Waiting};
use crate::graph::neighbours::Neighbours;
use crate::graph::plan::MainTasks;
use crate::graph::slots::Slots;
use base::{StepIndex, StepState};

impl Scheduler {
    /// Checks every invariant.
    ///
    /// # Panics
    /// When one does not hold.
    pub fn sanity_check(&self) {
        assert!(self.queue.is_empty(), "a transition that is possible was not made");
        for step in self.graph.indexes() {
            let run = &self.steps[step.at()];
            let counted = Neighbours::count(&self.graph, step, |step| self.state(step));
            assert_eq!(run.neighbours, counted, "the neighbours of step {}", self.graph.step(step).name);
            self.check_tasks(step, run);
        }
        let left = self.steps.iter().filter(|run| run.state < StepState::Deactivated).count();
        assert_eq!(self.left, left, "the steps that are not DEACTIVATED");
        let slots = self.steps.iter().flat_map(|run| run.prepare.iter().chain([&run.main]));
        let running: usize = slots.map(|slots| slots.running().count()).sum();
        assert_eq!(self.running, running, "the running tasks");
        if self.is_idle() && !self.is_stopped {
            assert_eq!(self.left, 0, "no task runs, and steps have not ended");
        }
    }

    fn check_tasks(&self, step: StepIndex, run: &StepRun) {
        let plan = self.graph.step(step);
        run.prepare.iter().chain([&run.main]).for_each(Slots::sanity_check);
        let has_main = run.main.len() > 0;
        assert!(!has_main || run.state >= StepState::Running, "step {} has main tasks too early", plan.name);
        let is_preparing = run.prepare.iter().any(Slots::has_running);
        let may_prepare = [StepState::Preparing, StepState::Completing].contains(&run.state);
        assert!(!is_preparing || may_prepare, "step {} is prepared while it is {:?}", plan.name, run.state);
        if run.state >= StepState::Completed {
            assert!(run.main.have_ended(), "step {} has ended and has tasks", plan.name);
        }
        let max = match plan.main {
            MainTasks::Exchange => 0,
            MainTasks::Number(count) => count as usize,
            MainTasks::PerPartition(_) => run.partitions.len(),
        };
        assert!(run.main.len() as usize <= max, "step {} has more tasks than it may have", plan.name);
        let starts = self.effects.iter().any(|effect| matches!(effect, Waiting::Starts(of, _) if *of == step));
        let all = run.prepare.iter().chain([&run.main]);
        let waits = all.clone().any(|slots| !slots.have_ended() && !slots.has_running());
        assert!(starts || self.is_stopped || !waits, "a task of step {} never starts", plan.name);
    }
}
