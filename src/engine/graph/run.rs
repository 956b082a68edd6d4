//! One graph from its submit to its end: the scheduler, the announced locations, and the status of the whole.
//!
//! Everything that happens to a graph enters as a [`GraphEvent`]. If it changes anything, it comes out again as a [`GraphEntry`],
//! which the owner stores. The entries of a graph, applied in their order, rebuild the same run: the same states, the same numbers
//! of tasks and partitions, and the same numbers of changes. So nothing else has to be stored.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::plan::{Graph, InputId, OutputId};
use super::provisions::Provisions;
use super::scheduler::{Effect, Scheduler};
use base::{GraphEntry, GraphEvent, GraphStatus, StepIndex, StepState, StepTask, TaskEnd, TaskRole, Wall};

/// An instruction to the owner of a graph; the order matters.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphEffect {
    /// Start this task.
    Start(StepTask),
    /// End this task early, cooperatively.
    End(StepTask),
    /// End this task: its graph ends.
    Kill(StepTask),
    /// This task will not be started, or has to be removed before it is.
    Drop(StepTask),
    /// Report this change.
    Changed(StatusChange),
}

/// A change of a step or of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusChange {
    /// Its number in the graph, from 1.
    pub seq: u64,
    /// The step and its state; `None` for the end of the graph.
    pub step: Option<(StepIndex, StepState)>,
    /// The status of the graph.
    pub status: GraphStatus,
}

/// The run of one graph.
#[derive(Debug)]
pub struct GraphRun {
    scheduler: Scheduler,
    provisions: Provisions,
    effects: VecDeque<GraphEffect>,
    /// The end that the graph will have, and its reason, once that is known.
    verdict: Option<(GraphStatus, Arc<str>)>,
    ended_at: Option<Wall>,
    /// The moments at which each step reached each state, by the order of [`StepState::ALL`].
    times: Vec<[Option<Wall>; StepState::ALL.len()]>,
    /// The number of steps in each state.
    counts: [usize; StepState::ALL.len()],
    seq: u64,
    partitions_max: usize,
}

impl GraphRun {
    /// Begins a graph.
    #[must_use]
    pub fn new(graph: Arc<Graph>, partitions_max: usize, at: Wall) -> Self {
        let steps = graph.steps().len();
        let mut created = [None; StepState::ALL.len()];
        created[StepState::Created as usize] = Some(at);
        let mut counts = [0; StepState::ALL.len()];
        counts[StepState::Created as usize] = steps;
        let mut run = Self {
            scheduler: Scheduler::new(graph, partitions_max),
            provisions: Provisions::default(),
            effects: VecDeque::new(),
            verdict: None,
            ended_at: None,
            times: vec![created; steps],
            counts,
            seq: 0,
            partitions_max,
        };
        run.drain(at, &mut |_| false, &mut Vec::new());
        run
    }

    /// Begins a graph again and applies its stored entries. `partitions_max` must be the limit with which it was accepted, because
    /// another limit could lead to a different run. Its effects are the tasks that have started and not ended, each once, as
    /// [`GraphEffect::Start`]: the owner has stored some of these tasks, and starts the others.
    #[must_use]
    pub fn restore(
        graph: Arc<Graph>,
        partitions_max: usize,
        at: Wall,
        entries: impl IntoIterator<Item = GraphEntry>,
    ) -> Self {
        let mut run = Self::new(graph, partitions_max, at);
        for GraphEntry { at, event, dropped } in entries {
            let dropped: BTreeSet<StepTask> = dropped.into_iter().collect();
            run.apply(at, &event, &mut |slot| dropped.contains(&slot));
        }
        let scheduler = &run.scheduler;
        run.effects.retain(|effect| matches!(effect, GraphEffect::Start(slot) if scheduler.is_running(*slot)));
        run
    }

    /// Something has happened. `has_not_begun` tells whether a task has no run, so that it can be removed at once. Returns the next
    /// entry, which must be stored before any of its consequences leaves; `None` if the event comes too late to change anything.
    #[must_use]
    pub fn handle(
        &mut self,
        at: Wall,
        event: GraphEvent,
        mut has_not_begun: impl FnMut(StepTask) -> bool,
    ) -> Option<GraphEntry> {
        if !self.matters(&event) {
            return None;
        }
        let dropped = self.apply(at, &event, &mut has_not_begun);
        Some(GraphEntry { at, event, dropped })
    }

    fn matters(&self, event: &GraphEvent) -> bool {
        match event {
            // Only a running main task provides.
            GraphEvent::Announced { slot, output, .. } => {
                let outputs = self.scheduler.graph().steps().get(slot.step.at()).map_or(0, |step| step.outputs.len());
                let is_main = slot.role == TaskRole::Main;
                is_main && (*output as usize) < outputs && self.verdict.is_none() && self.scheduler.is_running(*slot)
            }
            GraphEvent::Ended(slot, _) => self.scheduler.is_running(*slot),
            GraphEvent::Complete(step) => self.verdict.is_none() && self.scheduler.state(*step) < StepState::Completing,
            GraphEvent::Kill(_) => self.verdict.is_none(),
        }
    }

    /// The next effect.
    pub fn poll_effect(&mut self) -> Option<GraphEffect> {
        self.effects.pop_front()
    }

    /// The states of the steps.
    #[must_use]
    pub const fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// The status of the graph.
    #[must_use]
    pub fn status(&self) -> GraphStatus {
        match (&self.verdict, self.ended_at) {
            (Some((status, _)), Some(_)) => *status,
            _ => GraphStatus::Running,
        }
    }

    /// Whether the graph is ending: nothing more of it starts.
    #[must_use]
    pub const fn is_ending(&self) -> bool {
        self.verdict.is_some()
    }

    /// Whether no effect is left.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.effects.is_empty()
    }

    /// Why the graph ends, or has ended, without success.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.verdict.as_ref().map(|(_, why)| &**why).filter(|why| !why.is_empty())
    }

    /// The moment of its end.
    #[must_use]
    pub const fn ended_at(&self) -> Option<Wall> {
        self.ended_at
    }

    /// The number of steps in each state, in the order of [`StepState::ALL`].
    #[must_use]
    pub const fn counts(&self) -> [usize; StepState::ALL.len()] {
        self.counts
    }

    /// The moments at which a step reached each state, in the order of [`StepState::ALL`].
    #[must_use]
    pub fn times(&self, step: StepIndex) -> &[Option<Wall>; StepState::ALL.len()] {
        &self.times[step.at()]
    }

    /// The locations that a task finds at each of its inputs.
    #[must_use]
    pub fn inputs(&self, slot: StepTask) -> Vec<(InputId, Vec<Arc<str>>)> {
        self.provisions.of_slot(&self.scheduler, slot)
    }

    /// The locations that a task finds at one of its inputs.
    #[must_use]
    pub fn input(&self, slot: StepTask, input: u32) -> Vec<Arc<str>> {
        self.provisions.of_input(&self.scheduler, slot, input)
    }

    /// The number of locations that the tasks of a step have announced.
    #[must_use]
    pub fn provided(&self, step: StepIndex) -> usize {
        self.provisions.count(step)
    }

    fn apply(
        &mut self,
        at: Wall,
        event: &GraphEvent,
        has_not_begun: &mut dyn FnMut(StepTask) -> bool,
    ) -> Vec<StepTask> {
        let mut dropped = Vec::new();
        match event {
            GraphEvent::Announced { slot, round, output, location } => {
                self.announce(*slot, *round, *output, std::slice::from_ref(location));
            }
            GraphEvent::Ended(slot, end) => self.end(*slot, end),
            GraphEvent::Complete(step) => self.scheduler.handle_completion(*step),
            GraphEvent::Kill(why) => self.stop(GraphStatus::Killed, why),
        }
        self.drain(at, has_not_begun, &mut dropped);
        dropped
    }

    /// A file without locations is an announcement, too.
    fn announce(&mut self, slot: StepTask, round: u32, output: u32, locations: &[Arc<str>]) {
        let output = OutputId { step: slot.step, output };
        if !self.scheduler.handle_providing(output, slot.number, 0, 0) {
            return;
        }
        for location in locations {
            if let Some(number) = self.provisions.add(output, slot.number, round, location) {
                self.scheduler.handle_providing(output, slot.number, number, 1);
            }
        }
    }

    /// The locations of a task count if it has succeeded, or was told to end.
    fn end(&mut self, slot: StepTask, end: &TaskEnd) {
        let was_told = self.scheduler.state(slot.step) >= StepState::Completing;
        match end.failure.as_ref().filter(|_| !was_told) {
            Some(why) => self.stop(GraphStatus::Failed, why),
            None if slot.role == TaskRole::Main && self.verdict.is_none() => {
                for (output, locations) in &end.provided {
                    self.announce(slot, end.round, *output, locations);
                }
            }
            None => {}
        }
        self.scheduler.handle_ended(slot, true);
    }

    /// Ends the graph in this way, unless it is already ending in another.
    fn stop(&mut self, status: GraphStatus, why: &Arc<str>) {
        if self.verdict.is_none() {
            self.verdict = Some((status, Arc::clone(why)));
            self.scheduler.handle_stop();
        }
    }

    /// Takes the effects of the scheduler. A task that has no run ends at once.
    fn drain(&mut self, at: Wall, has_not_begun: &mut dyn FnMut(StepTask) -> bool, dropped: &mut Vec<StepTask>) {
        let mut is_done = false;
        while let Some(effect) = self.scheduler.poll_effect() {
            match effect {
                Effect::Start(slot, _) => self.effects.push_back(GraphEffect::Start(slot)),
                Effect::End(slot) if has_not_begun(slot) => {
                    dropped.push(slot);
                    self.effects.push_back(GraphEffect::Drop(slot));
                    self.scheduler.handle_ended(slot, false);
                }
                Effect::End(slot) if self.verdict.is_some() => self.effects.push_back(GraphEffect::Kill(slot)),
                Effect::End(slot) => self.effects.push_back(GraphEffect::End(slot)),
                Effect::Changed(step, state) => self.change(at, step, state),
                Effect::Excess(step) => {
                    let (name, max) = (&self.scheduler.graph().step(step).name, self.partitions_max);
                    let why = format!("step {name}: the graph has more than {max} partitions (GRAPH_TASKS_MAX)");
                    self.verdict.get_or_insert((GraphStatus::Failed, why.into()));
                }
                Effect::Done => is_done = true,
            }
        }
        if is_done {
            self.verdict.get_or_insert((GraphStatus::Succeeded, "".into()));
        }
        if let Some((status, _)) = self.verdict.as_ref().filter(|_| self.ended_at.is_none() && self.scheduler.is_idle())
        {
            let status = *status;
            self.ended_at = Some(at);
            self.tell(None, status);
        }
    }

    fn change(&mut self, at: Wall, step: StepIndex, state: StepState) {
        let times = &mut self.times[step.at()];
        // The last state that the step has reached.
        let before = times.iter().rposition(Option::is_some).unwrap_or_default();
        self.counts[before] -= 1;
        self.counts[state as usize] += 1;
        times[state as usize] = Some(at);
        self.tell(Some((step, state)), GraphStatus::Running);
    }

    fn tell(&mut self, step: Option<(StepIndex, StepState)>, status: GraphStatus) {
        self.seq += 1;
        self.effects.push_back(GraphEffect::Changed(StatusChange { seq: self.seq, step, status }));
    }

    /// Checks every invariant.
    ///
    /// # Panics
    /// When one does not hold.
    pub fn sanity_check(&self) {
        self.scheduler.sanity_check();
        let mut counts = [0; StepState::ALL.len()];
        for step in self.scheduler.graph().indexes() {
            counts[self.scheduler.state(step) as usize] += 1;
        }
        assert_eq!(self.counts, counts, "the number of steps in each state");
        assert_eq!(self.ended_at.is_some(), self.scheduler.is_idle(), "a graph ends with its last task");
    }
}
