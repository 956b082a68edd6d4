//! The state of one graph. See the [module](super).

mod holdup;
mod invariants;
mod transitions;

use std::collections::VecDeque;
use std::sync::Arc;

use super::neighbours::Neighbours;
use super::plan::{Graph, InputId, MainTasks, OutputId};
use super::slots::{Partition, Slots};
use base::{PortActivity, StepIndex, StepState, StepTask, TaskRole};

/// An instruction to the owner of a scheduler; the order matters.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start this task, for this partition if its step has a task for each partition.
    Start(StepTask, Option<Partition>),
    /// End this task early. Its end comes back as an event.
    End(StepTask),
    /// Report that a step is in this state.
    Changed(StepIndex, StepState),
    /// A step announces more partitions, or more of them reach it, than a graph may have. Nothing more starts.
    Excess(StepIndex),
    /// All steps are DEACTIVATED.
    Done,
}

/// An effect that has not left.
#[derive(Debug)]
enum Waiting {
    /// The next task of this step and role.
    Starts(StepIndex, TaskRole),
    One(Effect),
}

/// The scheduler of one graph.
#[derive(Debug)]
pub struct Scheduler {
    graph: Arc<Graph>,
    steps: Vec<StepRun>,
    /// The steps whose next transition may be possible, each once.
    queue: VecDeque<StepIndex>,
    effects: VecDeque<Waiting>,
    /// Steps that are not DEACTIVATED.
    left: usize,
    /// Tasks that have started and not ended.
    running: usize,
    /// Partitions that may still reach a step.
    partitions_left: usize,
    is_stopped: bool,
    /// Number of connections that changes of state have looked at.
    #[cfg(test)]
    pub(super) looks: u64,
}

/// The state of one step.
#[derive(Debug)]
struct StepRun {
    state: StepState,
    is_queued: bool,
    neighbours: Neighbours,
    /// Sub inputs that are completed and whose preparation has not begun.
    ready: Vec<u32>,
    /// Sub inputs that are not prepared.
    unprepared: u32,
    /// The tasks of each sub input.
    prepare: Vec<Slots>,
    main: Slots,
    /// Whether it was told to end before its main tasks were created.
    is_cut_short: bool,
    /// The partitions for its tasks, if the step has a task for each.
    partitions: Vec<Partition>,
    /// Whether a partition has passed the step, if it is an exchange.
    has_passed: bool,
    /// For each output, whether a task has announced something there, even nothing.
    provided: Vec<bool>,
}

impl Scheduler {
    /// A graph whose steps are all CREATED. At most `partitions_max` partitions may reach its exchanges and the steps with a task
    /// for each partition.
    #[must_use]
    pub fn new(graph: Arc<Graph>, partitions_max: usize) -> Self {
        let run = |step| {
            let (plan, neighbours) = (graph.step(step), Neighbours::count(&graph, step, |_| StepState::Created));
            StepRun {
                state: StepState::Created,
                is_queued: false,
                neighbours,
                ready: Vec::new(),
                unprepared: u32::try_from(plan.sub_inputs()).unwrap_or(u32::MAX),
                prepare: Vec::new(),
                main: Slots::default(),
                is_cut_short: false,
                partitions: Vec::new(),
                has_passed: false,
                provided: vec![false; plan.outputs.len()],
            }
        };
        let steps: Vec<StepRun> = graph.indexes().map(run).collect();
        let mut scheduler = Self {
            left: steps.len(),
            steps,
            queue: VecDeque::new(),
            effects: VecDeque::new(),
            running: 0,
            partitions_left: partitions_max,
            is_stopped: false,
            #[cfg(test)]
            looks: 0,
            graph,
        };
        for step in scheduler.graph.indexes() {
            if scheduler.steps[step.at()].neighbours.upstream_created == 0 {
                scheduler.enqueue(step);
            }
        }
        scheduler.settle();
        scheduler
    }

    /// The graph.
    #[must_use]
    pub const fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// The state of a step.
    #[must_use]
    pub fn state(&self, step: StepIndex) -> StepState {
        self.steps[step.at()].state
    }

    /// The activity of an input.
    #[must_use]
    pub fn input_activity(&self, input: InputId) -> PortActivity {
        self.steps[input.step.at()].neighbours.inputs[input.input as usize].activity()
    }

    /// The activity of an output. It is never completed.
    #[must_use]
    pub fn output_activity(&self, output: OutputId) -> PortActivity {
        let created = self.steps[output.step.at()].neighbours.outputs[output.output as usize];
        let sinks = self.graph.step(output.step).outputs[output.output as usize].sinks.len();
        if created as usize == sinks { PortActivity::Inactive } else { PortActivity::Active }
    }

    /// Whether no task runs, and none starts without another event.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.running == 0 && self.effects.is_empty()
    }

    /// A task has ended; with `has_run` false it was removed before it could do anything. False if it was not running.
    pub fn handle_ended(&mut self, slot: StepTask, has_run: bool) -> bool {
        let Some(slots) = self.slots_mut(slot.step, slot.role) else { return false };
        if !slots.end(slot.number, has_run) {
            return false;
        }
        let have_ended = slots.have_ended();
        self.running -= 1;
        if slot.role != TaskRole::Main && have_ended {
            self.steps[slot.step.at()].unprepared -= 1;
        }
        self.enqueue(slot.step);
        self.settle();
        true
    }

    /// A main task has announced `count` more partitions on an output, on which it had announced `first` before. A `count` of 0
    /// says that it has none for this output. False if the step has ended, or has no such output.
    pub fn handle_providing(&mut self, output: OutputId, task: u32, first: u32, count: u32) -> bool {
        let run = &mut self.steps[output.step.at()];
        if run.state >= StepState::Completed || self.is_stopped {
            return false;
        }
        let Some(is_provided) = run.provided.get_mut(output.output as usize) else { return false };
        *is_provided = true;
        for number in first..first.saturating_add(count) {
            if !self.count_partition(output.step) {
                break;
            }
            self.deliver(Partition { output, task, number });
        }
        self.settle();
        true
    }

    /// The number of main tasks of a step, and the numbers of those that ended after a start.
    pub(super) fn main_tasks(&self, step: StepIndex) -> (u32, impl Iterator<Item = u32>) {
        let main = &self.steps[step.at()].main;
        (main.len(), main.completed())
    }

    /// Whether a task has announced something on this output, even nothing.
    pub(super) fn is_provided(&self, output: OutputId) -> bool {
        self.steps[output.step.at()].provided[output.output as usize]
    }

    /// The partition that a task is for.
    pub(super) fn partition_of(&self, slot: StepTask) -> Option<Partition> {
        self.partition(slot.step, slot.role, slot.number)
    }

    /// Whether the task of a slot runs.
    #[must_use]
    pub fn is_running(&self, slot: StepTask) -> bool {
        let Some(run) = self.steps.get(slot.step.at()) else { return false };
        match slot.role {
            TaskRole::Main => run.main.is_running(slot.number),
            TaskRole::Prepare(input) => {
                let slots = self.sub(slot.step, input).and_then(|sub| run.prepare.get(sub));
                slots.is_some_and(|slots| slots.is_running(slot.number))
            }
        }
    }

    /// A step is to end early.
    pub fn handle_completion(&mut self, step: StepIndex) {
        if !self.is_stopped {
            self.complete_early(step);
            self.settle();
        }
    }

    /// Nothing more starts, and all running tasks are to end. The steps keep their states.
    pub fn handle_stop(&mut self) {
        self.is_stopped = true;
        self.queue.clear();
        self.effects.retain(|effect| !matches!(effect, Waiting::Starts(..)));
        for step in self.graph.indexes() {
            self.end_tasks(step);
        }
    }

    /// The next effect.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        loop {
            match self.effects.front()? {
                Waiting::Starts(step, role) => {
                    let (step, role) = (*step, *role);
                    if let Some(number) = self.slots_mut(step, role).and_then(Slots::start_next) {
                        self.running += 1;
                        let partition = self.partition(step, role, number);
                        return Some(Effect::Start(StepTask { step, role, number }, partition));
                    }
                    self.effects.pop_front();
                }
                Waiting::One(effect) => {
                    let effect = *effect;
                    self.effects.pop_front();
                    if self.is_due(effect) {
                        return Some(effect);
                    }
                }
            }
        }
    }

    /// Whether an effect is still wanted. A step whose tasks could all be removed at once was never COMPLETING.
    fn is_due(&self, effect: Effect) -> bool {
        match effect {
            Effect::End(slot) => self.is_running(slot),
            Effect::Changed(step, StepState::Completing) => self.state(step) == StepState::Completing,
            Effect::Changed(..) | Effect::Excess(_) | Effect::Start(..) | Effect::Done => true,
        }
    }

    /// The place of a sub input among those of its step.
    fn sub(&self, step: StepIndex, input: u32) -> Option<usize> {
        input.checked_sub(self.graph.step(step).main_inputs).map(|sub| sub as usize)
    }

    fn slots_mut(&mut self, step: StepIndex, role: TaskRole) -> Option<&mut Slots> {
        let sub = match role {
            TaskRole::Main => return Some(&mut self.steps.get_mut(step.at())?.main),
            TaskRole::Prepare(input) => self.sub(step, input)?,
        };
        self.steps[step.at()].prepare.get_mut(sub)
    }

    fn partition(&self, step: StepIndex, role: TaskRole, number: u32) -> Option<Partition> {
        match (role, self.graph.step(step).main) {
            (TaskRole::Main, MainTasks::PerPartition(_)) => {
                self.steps[step.at()].partitions.get(number as usize).copied()
            }
            _ => None,
        }
    }

    fn enqueue(&mut self, step: StepIndex) {
        let run = &mut self.steps[step.at()];
        if !self.is_stopped && !std::mem::replace(&mut run.is_queued, true) {
            self.queue.push_back(step);
        }
    }

    fn tell(&mut self, effect: Effect) {
        self.effects.push_back(Waiting::One(effect));
    }
}

impl StepRun {
    /// The outputs on which no task has announced anything.
    fn unprovided(&self) -> impl Iterator<Item = u32> {
        self.provided.iter().zip(0..).filter(|(is_provided, _)| !**is_provided).map(|(_, output)| output)
    }
}
