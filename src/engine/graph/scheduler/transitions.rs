//! The internal events: each transition of a step, and what it changes for its neighbours.

use std::sync::Arc;

use super::{Effect, Scheduler, Waiting};
use crate::graph::neighbours::releases;
use crate::graph::plan::{MainTasks, OutputId};
use crate::graph::slots::{Partition, Slots};
use base::{StepIndex, StepState, StepTask, TaskRole};

impl Scheduler {
    /// Makes every transition that is possible.
    pub(super) fn settle(&mut self) {
        while let Some(step) = self.queue.pop_front() {
            self.steps[step.at()].is_queued = false;
            self.advance(step);
        }
    }

    /// Makes the next transition of a step, if it is possible. After each one the step is in the queue again.
    fn advance(&mut self, step: StepIndex) {
        let run = &self.steps[step.at()];
        let all_end = run.neighbours.downstream > 0 && run.neighbours.downstream_going == 0;
        if all_end && run.state < StepState::Completing && self.graph.step(step).propagates {
            return self.complete_early(step);
        }
        match run.state {
            StepState::Created => {
                if run.neighbours.upstream_created == 0 {
                    self.activate(step);
                }
            }
            StepState::Activated | StepState::Preparing => self.prepare(step),
            StepState::Prepared => self.consume(step),
            StepState::Running => {
                self.start_partitions(step);
                self.complete(step);
            }
            StepState::Completing => self.complete(step),
            StepState::Completed => {
                if run.neighbours.upstream_incomplete == 0 && run.neighbours.downstream_holding == 0 {
                    self.set(step, StepState::Deactivated);
                }
            }
            StepState::Deactivated => {}
        }
    }

    fn activate(&mut self, step: StepIndex) {
        let subs = self.graph.step(step).sub_inputs();
        self.steps[step.at()].prepare.resize(subs, Slots::default());
        self.set(step, if subs > 0 { StepState::Activated } else { StepState::Prepared });
    }

    /// Starts the tasks of each sub input that is completed.
    fn prepare(&mut self, step: StepIndex) {
        let ready = std::mem::take(&mut self.steps[step.at()].ready);
        for input in &ready {
            let count = self.graph.step(step).inputs[*input as usize].prepare;
            if !self.start(step, TaskRole::Prepare(*input), count) {
                self.steps[step.at()].unprepared -= 1;
            }
        }
        let run = &self.steps[step.at()];
        if run.state == StepState::Activated {
            if !ready.is_empty() {
                self.set(step, StepState::Preparing);
            }
        } else if run.unprepared == 0 {
            self.set(step, StepState::Prepared);
        }
    }

    /// Adds tasks until there are `count`. Returns whether there is a new one.
    fn start(&mut self, step: StepIndex, role: TaskRole, count: u32) -> bool {
        let grows = self.slots_mut(step, role).is_some_and(|slots| slots.grow_to(count));
        if grows {
            self.effects.push_back(Waiting::Starts(step, role));
        }
        grows
    }

    /// Starts the main tasks once there is something for them.
    fn consume(&mut self, step: StepIndex) {
        let run = &self.steps[step.at()];
        let near = &run.neighbours;
        let is_provided = match self.graph.step(step).main {
            MainTasks::Number(_) => false,
            MainTasks::Exchange => run.has_passed,
            MainTasks::PerPartition(input) => {
                let is_open = near.inputs[input as usize].incomplete > 0;
                !run.partitions.is_empty() && near.main_open == u32::from(is_open)
            }
        };
        if near.downstream_created > 0 || (near.main_open > 0 && !is_provided) {
            return;
        }
        self.set(step, StepState::Running);
        if let MainTasks::Number(count) = self.graph.step(step).main {
            self.start(step, TaskRole::Main, count);
        }
    }

    /// Starts a task for each partition that has none.
    fn start_partitions(&mut self, step: StepIndex) {
        if let MainTasks::PerPartition(_) = self.graph.step(step).main {
            let count = u32::try_from(self.steps[step.at()].partitions.len()).unwrap_or(u32::MAX);
            self.start(step, TaskRole::Main, count);
        }
    }

    /// Completes a step whose tasks have ended, if no more of them can start.
    fn complete(&mut self, step: StepIndex) {
        let run = &self.steps[step.at()];
        let may_get_more = run.neighbours.main_open > 0 && !run.is_cut_short;
        let is_busy = !run.main.have_ended() || run.prepare.iter().any(Slots::has_running);
        if !may_get_more && !is_busy {
            self.set_completed(step);
        }
    }

    /// An output on which no task has announced anything gets an empty partition for each task that has run.
    fn set_completed(&mut self, step: StepIndex) {
        let unprovided: Vec<u32> = self.steps[step.at()].unprovided().collect();
        for output in unprovided {
            let tasks: Vec<u32> = self.steps[step.at()].main.completed().collect();
            for task in tasks {
                self.deliver(Partition { output: OutputId { step, output }, task, number: 0 });
            }
        }
        self.set(step, StepState::Completed);
    }

    /// Completes a step before its inputs are: its tasks are told to end, and no more of them start.
    pub(super) fn complete_early(&mut self, step: StepIndex) {
        let run = &mut self.steps[step.at()];
        if run.state >= StepState::Completing {
            return;
        }
        run.is_cut_short = run.state < StepState::Running;
        if self.end_tasks(step) {
            self.set(step, StepState::Completing);
        } else {
            self.set_completed(step);
        }
    }

    /// Tells the running tasks of a step to end, and drops those that have not started. Returns whether one is running.
    pub(super) fn end_tasks(&mut self, step: StepIndex) -> bool {
        let main_inputs = self.graph.step(step).main_inputs;
        let run = &mut self.steps[step.at()];
        let mut running = Vec::new();
        for (slots, input) in run.prepare.iter_mut().zip(main_inputs..) {
            slots.drop_rest();
            running.extend(slots.running().map(|number| StepTask { step, role: TaskRole::Prepare(input), number }));
        }
        run.main.drop_rest();
        running.extend(run.main.running().map(|number| StepTask { step, role: TaskRole::Main, number }));
        let is_one = !running.is_empty();
        running.into_iter().for_each(|slot| self.tell(Effect::End(slot)));
        is_one
    }

    /// One more partition reaches a step. False if that is one too many: then nothing more starts.
    pub(super) fn count_partition(&mut self, step: StepIndex) -> bool {
        if let Some(left) = self.partitions_left.checked_sub(1) {
            self.partitions_left = left;
            return true;
        }
        if !self.is_stopped {
            self.tell(Effect::Excess(step));
            self.handle_stop();
        }
        false
    }

    /// A partition reaches every input that takes the output, through exchanges too.
    pub(super) fn deliver(&mut self, partition: Partition) {
        let graph = Arc::clone(&self.graph);
        let mut outputs = vec![partition.output];
        while let Some(output) = outputs.pop() {
            for sink in &graph.step(output.step).outputs[output.output as usize].sinks {
                let (step, main) = (sink.step, graph.step(sink.step).main);
                let is_for_tasks = main == MainTasks::PerPartition(sink.input);
                let is_taken = is_for_tasks || main == MainTasks::Exchange;
                if !is_taken || self.is_stopped || self.state(step) >= StepState::Completing {
                    continue;
                }
                if !self.count_partition(step) {
                    return;
                }
                if is_for_tasks {
                    self.steps[step.at()].partitions.push(partition);
                } else {
                    self.steps[step.at()].has_passed = true;
                    let passed = (0..).zip(&graph.step(step).outputs).map(|(output, _)| OutputId { step, output });
                    outputs.extend(passed);
                }
                self.enqueue(step);
            }
        }
    }

    /// Changes the state of a step, and notes it at its neighbours: those upstream, those downstream, then itself.
    fn set(&mut self, step: StepIndex, after: StepState) {
        let before = std::mem::replace(&mut self.steps[step.at()].state, after);
        assert!(before < after, "step {} goes back from {before:?} to {after:?}", self.graph.step(step).name);
        let reaches = |state| before < state && after >= state;
        self.tell(Effect::Changed(step, after));
        let graph = Arc::clone(&self.graph);
        for (input, number) in graph.step(step).inputs.iter().zip(0..) {
            let releases = reaches(releases(graph.step(step).is_sub(number)));
            for source in &input.sources {
                self.look();
                let near = &mut self.steps[source.step.at()].neighbours;
                let mut is_due = false;
                if before == StepState::Created {
                    near.outputs[source.output as usize] -= 1;
                    is_due |= count_down(&mut near.downstream_created);
                }
                is_due |= reaches(StepState::Completing) && count_down(&mut near.downstream_going);
                is_due |= releases && count_down(&mut near.downstream_holding);
                if is_due {
                    self.enqueue(source.step);
                }
            }
        }
        for sink in graph.step(step).outputs.iter().flat_map(|output| &output.sinks) {
            self.look();
            let run = &mut self.steps[sink.step.at()];
            let sources = &mut run.neighbours.inputs[sink.input as usize];
            sources.idle -= u32::from(reaches(StepState::Running));
            let mut is_due = before == StepState::Created && count_down(&mut run.neighbours.upstream_created);
            if reaches(StepState::Completed) {
                is_due |= count_down(&mut run.neighbours.upstream_incomplete);
                if count_down(&mut sources.incomplete) {
                    is_due = true;
                    if graph.step(sink.step).is_sub(sink.input) {
                        run.ready.push(sink.input);
                    } else {
                        run.neighbours.main_open -= 1;
                    }
                }
            }
            if is_due {
                self.enqueue(sink.step);
            }
        }
        self.enqueue(step);
        if after == StepState::Deactivated {
            self.left -= 1;
            if self.left == 0 {
                self.tell(Effect::Done);
            }
        }
    }

    /// Counts a look at a connection.
    const fn look(&mut self) {
        #[cfg(test)]
        {
            self.looks += 1;
        }
    }
}

/// Subtracts one. True if that was the last one.
const fn count_down(count: &mut u32) -> bool {
    *count -= 1;
    *count == 0
}
