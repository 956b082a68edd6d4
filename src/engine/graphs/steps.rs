//! The tasks of step graphs: how the effects of a graph become tasks, and how the ends of tasks become events of their graph.
//!
//! | event | consequence |
//! |---|---|
//! | a graph starts a task | a task record, as for any submit |
//! | it drops a task | the task ends as SKIPPED, or as KILLED if the graph ends |
//! | a step is told to end early | its runs are told to finish; a task that waits for its next round ends |
//! | the graph ends | its runs are killed |
//! | a task has ended for good | an event of its graph, stored in the same commit as the end of the task |
//!
//! One event may start any number of tasks, so effects are carried out in slices ([`crate::graphs`]). Effects are not stored. After
//! a restart, the entries of a graph tell which tasks must exist, and the missing ones are started.

use std::sync::Arc;

use crate::Controller;
use crate::graph::{GraphEffect, Output, StatusChange};
use crate::graphs::{OwnedGraph, root};
use crate::readers::waits::Subject;
use crate::turn::effect::{Effect, Record, Timer};
use api::wire::publish::Published;
use api::wire::relations::write_place;
use api::wire::task;
use base::{
    GraphChange, GraphEvent, GraphId, GraphStatus, KillCause, Membership, Now, Outcome, Phase, Relations, Round,
    StepContext, StepRole, StepState, StepTask, TaskEnd, TaskId, TaskRecord, TaskRole, TaskState, Wall, words,
};

impl Controller {
    /// Something happens to a graph. False if it comes too late to change anything.
    pub(crate) fn graph_event(&mut self, now: Now, id: GraphId, event: GraphEvent) -> bool {
        let (graphs, tasks) = (&mut self.graphs, &mut self.tasks);
        let Some(graph) = graphs.get_mut(id) else { return false };
        let OwnedGraph { run, tasks: slots, .. } = graph;
        let has_no_run = |record: &TaskRecord| record.phase() == Phase::Waiting && !has_run(record);
        let has_not_begun = |slot: StepTask| slots.get(&slot).and_then(|task| tasks.get(*task)).is_none_or(has_no_run);
        let Some(entry) = run.handle(now.wall, event, has_not_begun) else { return false };
        // In the same turn as the event, and so in the same commit.
        let record = graph.entry(&entry);
        self.turn.store(record);
        self.graphs.enqueue(id);
        true
    }

    /// A task has ended for good. If it is one of a step, its graph goes on.
    pub(crate) fn step_task_ended(&mut self, now: Now, task: TaskId) {
        let Some(record) = self.tasks.get(task) else { return };
        let (Some(place), TaskState::Finished { outcome, .. }) = (record.place(), &record.state) else { return };
        let reported = self.graphs.take_provided(task);
        let Some(graph) = self.graphs.get(place.graph) else { return };
        let Some(slot) = graph.slot(place) else { return };
        let failure = (*outcome != Outcome::Succeeded).then(|| failure_of(record, *outcome).into());
        let outputs = &graph.run.scheduler().graph().step(slot.step).outputs;
        let mut reported = reported.unwrap_or_default();
        let of_output = |(number, output): (u32, &Output)| Some((number, reported.remove(&output.name)?));
        let provided = (0..).zip(outputs).filter_map(of_output).collect();
        let end = TaskEnd { failure, round: record.round.0, provided };
        let id = graph.id;
        self.graph_event(now, id, GraphEvent::Ended(slot, end));
    }

    /// Carries out the effects of graphs, as far as this turn may.
    pub(crate) fn settle_graphs(&mut self, now: Now) {
        let mut last_started = None;
        while self.graphs.has_work()
            && let Some((id, most)) = self.graphs.next()
        {
            let mut done = 0;
            while done < most
                && let Some(effect) = self.graphs.get_mut(id).and_then(|graph| graph.run.poll_effect())
            {
                done += 1;
                last_started = self.carry_out(now, id, effect).or(last_started);
            }
            self.graphs.spend(done.max(1));
            match self.graphs.get(id) {
                Some(graph) if !graph.run.is_settled() => self.graphs.enqueue(id),
                Some(graph) if graph.run.ended_at().is_some() && !graph.has_ended => self.end_graph(now, id),
                Some(_) | None => {}
            }
        }
        if let Some(task) = last_started {
            self.dispatch(now);
            self.inform_if_waiting(task);
        }
    }

    /// Sets the deadline for the work of the next turn.
    pub(crate) fn plan_graphs(&mut self, now: Now) {
        if !self.graphs.is_settled() {
            self.turn.set_timer(Timer::Graphs, now.mono);
        }
    }

    /// Carries out one effect. Returns the task that it has started.
    fn carry_out(&mut self, now: Now, id: GraphId, effect: GraphEffect) -> Option<TaskId> {
        match effect {
            GraphEffect::Start(slot) => return self.start_task(now, id, slot),
            GraphEffect::End(slot) => self.tell_to_finish(now, id, slot),
            GraphEffect::Kill(slot) | GraphEffect::Drop(slot) => {
                let graph = self.graphs.get(id)?;
                let (task, cause) = (*graph.tasks.get(&slot)?, end_of(graph, slot)?);
                self.kill(now, task, &cause);
            }
            GraphEffect::Changed(change) => self.tell_change(id, change),
        }
        None
    }

    fn start_task(&mut self, now: Now, id: GraphId, slot: StepTask) -> Option<TaskId> {
        let graph = self.graphs.get(id)?;
        // It was dropped before it was started, or an earlier controller has started it.
        if !graph.run.scheduler().is_running(slot) || graph.tasks.contains_key(&slot) {
            return None;
        }
        let (place, terms) = (graph.place(slot), graph.terms(slot.step)?.clone());
        let pin = graph.accepted.pins.get(&terms.tool).copied();
        let job = Membership { name: graph.job.clone(), fails_max: None, is_pushed: false };
        let submitted = format!("{},{}", terms.members, write_place(&place));
        let task = self.tasks.new_id(now.wall);
        let record = TaskRecord {
            address: terms.address,
            pin,
            relations: Some(Arc::new(Relations { job: Some(job), after: Vec::new(), step: Some(place) })),
            ..TaskRecord::accepted(task, terms.tool, submitted.into(), terms.policy, now.wall)
        };
        self.tasks.families.add(task, root(id));
        self.insert_task(now, record);
        self.graphs.get_mut(id)?.tasks.insert(slot, task);
        Some(task)
    }

    /// A run is told to finish. A task that waits for its next round gets none.
    fn tell_to_finish(&mut self, now: Now, id: GraphId, slot: StepTask) {
        let Some(graph) = self.graphs.get(id) else { return };
        let Some(record) = graph.tasks.get(&slot).and_then(|task| self.tasks.get(*task)) else { return };
        let (task, round) = (record.id, record.round);
        match record.phase() {
            Phase::Waiting => self.drop_if_told(now, task),
            Phase::Dispatched | Phase::Preparing | Phase::Running => {
                self.turn.emit(Effect::Publish(Published::Finish(task, round)));
            }
            Phase::Ended | Phase::Finished => {}
        }
    }

    /// The context of a step that the agent of one of its tasks needs.
    pub(crate) fn step_context(&mut self, task: TaskId) -> Option<Arc<StepContext>> {
        let place = self.tasks.get(task)?.place()?.clone();
        let graph = self.graphs.get_mut(place.graph)?;
        let slot = graph.slot(&place)?;
        let outputs = match slot.role {
            TaskRole::Main => graph.run.scheduler().graph().step(slot.step).outputs.as_slice(),
            TaskRole::Prepare(_) => &[],
        };
        Some(Arc::new(StepContext {
            outputs: outputs.iter().map(|output| output.name.clone()).collect(),
            inputs: graph.inputs_of(slot),
            graph: place.graph,
            step: place.step,
            role: place.prepares.map_or(StepRole::Main, StepRole::Prepare),
            partition: place.partition,
            grace: self.settings.step_grace,
        }))
    }

    /// Whether the run of a task is told to finish, because its step ends early.
    pub(crate) fn is_told_to_finish(&self, record: &TaskRecord) -> bool {
        let Some(graph) = record.place().and_then(|place| self.graphs.get(place.graph)) else { return false };
        let step = record.place().and_then(|place| graph.step(&place.step));
        step.is_some_and(|step| graph.run.scheduler().state(step) >= StepState::Completing)
    }

    /// Ends a task that waits, if its step or its graph ends.
    pub(crate) fn drop_if_told(&mut self, now: Now, task: TaskId) {
        let Some(place) =
            self.tasks.get(task).filter(|record| record.phase() == Phase::Waiting).and_then(TaskRecord::place)
        else {
            return;
        };
        let graph = self.graphs.get(place.graph);
        let cause = graph.and_then(|graph| end_of(graph, graph.slot(place)?));
        if let Some(cause) = cause {
            self.kill(now, task, &cause);
        }
    }

    fn tell_change(&mut self, id: GraphId, change: StatusChange) {
        let Some(graph) = self.graphs.get_mut(id) else { return };
        let StatusChange { seq, step, status } = change;
        if let Some((step, StepState::Completed)) = step {
            graph.forget_inputs(step);
        }
        let plan = graph.run.scheduler().graph();
        let step = step.map(|(step, state)| (plan.step(step).name.clone(), state));
        let reason = graph.run.reason().filter(|_| step.is_none()).map(Arc::from);
        let address = graph.accepted.address.clone();
        self.graphs.statuses.push(GraphChange { graph: id, seq, step, status, reason, address });
    }

    /// A graph has ended: nothing is left to do for it.
    fn end_graph(&mut self, now: Now, id: GraphId) {
        if let Some(pins) = self.graphs.note_end(id) {
            self.unpin_all(now, &pins);
        }
        let Some(graph) = self.graphs.get(id) else { return };
        let (at, job) = (graph.run.ended_at().unwrap_or(now.wall), graph.job.clone());
        self.relations.jobs.touch(&job);
        self.answer_waiters(&Subject::Graph(id));
        self.answer_waiters(&Subject::Job(job));
        self.relatives_of_graph(id);
        self.keep_family(now, root(id), at);
    }

    /// Forgets a graph, whose tasks have been forgotten.
    pub(crate) fn forget_graph(&mut self, root: TaskId) {
        let Some(id) = self.graphs.of_root(root).map(|graph| graph.id) else { return };
        self.graphs.remove(id);
        self.turn.store(Record::Graph(id, None));
    }

    /// A submit of a graph could not be stored, and its submitter has not been told that it was accepted. True if the graph is
    /// removed. If an agent may have one of its tasks, the graph stays, and its submitter must wait.
    pub(crate) fn handle_graph_unstored(&mut self, now: Now, id: GraphId, duplicate: bool) -> bool {
        let Some(graph) = self.graphs.get(id) else { return true };
        let tasks: Vec<TaskId> = graph.tasks.values().copied().collect();
        let may_go = |record: &TaskRecord| record.phase() == Phase::Waiting && !has_run(record);
        if duplicate || graph.has_ended || !tasks.iter().all(|task| self.tasks.get(*task).is_none_or(may_go)) {
            return false;
        }
        if let Some(pins) = self.graphs.note_end(id) {
            self.unpin_all(now, &pins);
        }
        self.tasks.families.remove(root(id));
        for task in tasks.into_iter().rev() {
            self.remove_task(now, task);
        }
        self.forget_graph(root(id));
        true
    }

    /// Continues after a restart: ends the tasks that must not run, and adds the ends that are missing in the entries of their
    /// graph.
    pub(crate) fn restore_graphs(&mut self, now: Now) {
        self.end_orphans(now);
        let ids: Vec<GraphId> = self.graphs.iter().map(|graph| graph.id).collect();
        for id in ids {
            let Some(graph) = self.graphs.get(id) else { continue };
            let tasks: Vec<(StepTask, TaskId)> = graph.tasks.iter().map(|(slot, task)| (*slot, *task)).collect();
            for (slot, task) in tasks {
                let Some(graph) = self.graphs.get(id) else { break };
                let Some(record) = self.tasks.get(task) else { continue };
                let is_running = graph.run.scheduler().is_running(slot);
                match (record.phase(), is_running, end_of(graph, slot)) {
                    (Phase::Finished, true, _) => self.step_task_ended(now, task),
                    (Phase::Finished, false, _) | (_, true, None) => {}
                    (_, true, Some(KillCause::Skipped(_))) => self.tell_to_finish(now, id, slot),
                    (_, _, cause) => {
                        let cause = cause.unwrap_or(KillCause::GraphEnds("it is not a task of its graph".into()));
                        self.kill(now, task, &cause);
                    }
                }
            }
        }
        self.settle_graphs(now);
        self.plan_graphs(now);
    }

    /// Ends the tasks of graphs that the store has lost: such a task would run without its inputs.
    fn end_orphans(&mut self, now: Now) {
        let lost = |record: &TaskRecord| {
            let graph = record.place()?.graph;
            let is_lost = self.graphs.get(graph).is_none() && record.phase() != Phase::Finished;
            is_lost.then_some((record.id, graph))
        };
        let orphans: Vec<_> = self.tasks.newest_before(None).filter_map(lost).collect();
        for (task, graph) in orphans {
            self.kill(now, task, &KillCause::GraphEnds(format!("graph {graph} is not in the store").into()));
        }
    }

    /// Checks that graphs and tasks agree.
    pub(crate) fn check_graphs(&self) {
        self.graphs.sanity_check();
        assert!(
            self.graphs.is_settled() || self.turn.has_timer(&Timer::Graphs),
            "the effects of graphs are never carried out"
        );
        if !self.graphs.is_settled() {
            return;
        }
        for graph in self.graphs.iter() {
            for (slot, task) in &graph.tasks {
                let record = self.tasks.get(*task).unwrap_or_else(|| panic!("{task} of graph {} is gone", graph.id));
                let is_running = graph.run.scheduler().is_running(*slot);
                let has_ended = record.phase() == Phase::Finished || record.kill.is_some();
                assert!(is_running != has_ended || has_ended, "{task} of graph {}: {slot:?}", graph.id);
                assert!(!is_running || record.phase() < Phase::Finished, "graph {} waits for {task}", graph.id);
            }
        }
    }
}

/// Why a task that waits must not start, or a run must end; `None` while it is wanted.
fn end_of(graph: &OwnedGraph, slot: StepTask) -> Option<KillCause> {
    let (run, step) = (&graph.run, graph.run.scheduler().graph().step(slot.step));
    if run.is_ending() && run.status() != GraphStatus::Succeeded && run.reason().is_some() {
        let why = run.reason().unwrap_or_default();
        return Some(KillCause::GraphEnds(format!("graph {} ends: {why}", graph.id).into()));
    }
    let is_told = run.scheduler().state(slot.step) >= StepState::Completing;
    is_told.then(|| KillCause::Skipped(format!("step {} has been completed early", step.name).into()))
}

/// Whether a task has had a run.
fn has_run(record: &TaskRecord) -> bool {
    record.round > Round(0) || !record.past.is_empty() || record.is_out_of_contact()
}

/// Why a task fails its graph, in a sentence with the step and the task.
fn failure_of(record: &TaskRecord, outcome: Outcome) -> String {
    let step = record.place().map(|place| place.step.to_string()).unwrap_or_default();
    let said = task::reason_of(record);
    let code = record.result().map(|result| format!("exit code {}", result.exit_code.0));
    let why = said.or(code).map(|why| format!(": {why}")).unwrap_or_default();
    format!("step {step}: task {} ended as {}{why}", record.id, words::outcome(outcome))
}

/// The moment of the end of a graph, for its family.
pub(crate) fn ended_at(graph: &OwnedGraph) -> Option<Wall> {
    graph.run.ended_at().filter(|_| graph.run.is_settled())
}
