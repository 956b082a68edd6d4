//! The locations that main tasks have announced, and which of them each input of a step gets.
//!
//! They are in the order of the document, then of the upstream tasks, then of each task's announcements. The time of an
//! announcement does not matter.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::plan::{InputId, MainTasks, OutputId};
use super::scheduler::Scheduler;
use super::slots::Partition;
use base::{StepIndex, StepTask, TaskRole};

/// The announcements of the tasks of a graph.
#[derive(Debug, Default)]
pub(super) struct Provisions {
    by_task: BTreeMap<(OutputId, u32), Announced>,
}

/// The announcements of one task on one output.
#[derive(Debug, Default)]
struct Announced {
    locations: Vec<Arc<str>>,
    times: BTreeMap<Arc<str>, Times>,
}

/// How often a location was announced. The first announcements of a later round repeat those of the earlier ones.
#[derive(Debug, Default)]
struct Times {
    /// As a partition.
    partitions: usize,
    /// In the last round that named it.
    in_round: usize,
    round: u32,
}

impl Provisions {
    /// A task announces a location. Returns its number, unless an earlier round of the task has announced the same one.
    pub(super) fn add(&mut self, output: OutputId, task: u32, round: u32, location: &Arc<str>) -> Option<u32> {
        let announced = self.by_task.entry((output, task)).or_default();
        let times = announced.times.entry(Arc::clone(location)).or_default();
        if times.round < round {
            (times.round, times.in_round) = (round, 0);
        }
        times.in_round += 1;
        if times.in_round <= times.partitions {
            return None;
        }
        times.partitions += 1;
        announced.locations.push(Arc::clone(location));
        Some(u32::try_from(announced.locations.len() - 1).unwrap_or(u32::MAX))
    }

    /// The location of a partition; the empty text for an empty partition.
    fn location(&self, partition: Partition) -> Arc<str> {
        let announced = self.by_task.get(&(partition.output, partition.task));
        announced.and_then(|announced| announced.locations.get(partition.number as usize)).cloned().unwrap_or_default()
    }

    /// Adds the locations that an output has provided.
    fn of_output(&self, scheduler: &Scheduler, output: OutputId, found: &mut Vec<Arc<str>>) {
        let mut outputs = vec![output];
        while let Some(output) = outputs.pop() {
            let plan = scheduler.graph().step(output.step);
            if plan.is_exchange() {
                // The list is a stack, so the sources are pushed in reverse order.
                let sources = plan.inputs.iter().flat_map(|input| &input.sources);
                outputs.extend(sources.rev());
                continue;
            }
            let (count, completed) = scheduler.main_tasks(output.step);
            if scheduler.is_provided(output) {
                let of_task = |task| self.by_task.get(&(output, task)).map(|announced| &announced.locations);
                found.extend((0..count).filter_map(of_task).flatten().cloned());
            } else {
                found.extend(completed.map(|_| Arc::from("")));
            }
        }
    }

    /// The locations that a task finds at each input. A task that prepares an input finds those of that input alone.
    pub(super) fn of_slot(&self, scheduler: &Scheduler, slot: StepTask) -> Vec<(InputId, Vec<Arc<str>>)> {
        let wanted = |input: &u32| match slot.role {
            TaskRole::Main => true,
            TaskRole::Prepare(own) => *input == own,
        };
        let count = u32::try_from(scheduler.graph().step(slot.step).inputs.len()).unwrap_or(u32::MAX);
        (0..count)
            .filter(wanted)
            .map(|input| (InputId { step: slot.step, input }, self.of_input(scheduler, slot, input)))
            .collect()
    }

    pub(super) fn of_input(&self, scheduler: &Scheduler, slot: StepTask, input: u32) -> Vec<Arc<str>> {
        let plan = scheduler.graph().step(slot.step);
        if plan.main == MainTasks::PerPartition(input)
            && let Some(own) = scheduler.partition_of(slot)
        {
            return vec![self.location(own)];
        }
        let mut found = Vec::new();
        for source in &plan.inputs[input as usize].sources {
            self.of_output(scheduler, *source, &mut found);
        }
        found
    }

    /// The number of locations that the tasks of a step have announced.
    pub(super) fn count(&self, step: StepIndex) -> usize {
        let outputs = OutputId { step, output: 0 }..=OutputId { step, output: u32::MAX };
        let range = (*outputs.start(), 0)..=(*outputs.end(), u32::MAX);
        self.by_task.range(range).map(|(_, announced)| announced.locations.len()).sum()
    }
}
