//! The start of a controller: from the stored records back to the state in which they were written.
//!
//! Waiting tasks keep their order. A task that an agent had stays with that agent: if the agent comes back and names the
//! same run, the run is adopted ([`crate::fleet::adopt`]); if it is silent, it is lost like any other.
//!
//! The earlier controller may have pushed more than it stored. The numbers of those pushes are skipped, and pushes of an
//! adopted run are stored first ([`Effect::claim`](crate::Effect::claim)), so that no number ever stands for two states.

use std::sync::Arc;

use crate::fleet::agent::{Liveness, Slot};
use crate::fleet::leases::Remains;
use crate::fleet::lists::StoredLists;
use crate::graphs::steps;
use crate::graphs::{OwnedGraph, root};
use crate::turn::effect::Timer;
use crate::{Controller, Settings};
use api::wire::graph::StoredGraph;
use base::{
    AgentId, Epoch, GateSettings, HeldTool, JobMemo, JobName, Label, Now, Phase, RoundEnd, TaskId, TaskRecord,
    TaskState, ToolDigest, Wall,
};

impl Controller {
    /// A controller with the records of an earlier one; the tasks in the order of their ids.
    #[must_use]
    pub fn restore(settings: Settings, seed: u64, now: Now, stored: Stored) -> Self {
        let mut controller = Self::new(settings, seed);
        controller.begin_epoch(now, stored.epoch, stored.raised);
        controller.restore_catalog(now, stored.tools);
        for (name, settings) in stored.gates {
            controller.queue.gates.set(&name, settings);
        }
        for agent in stored.drained {
            controller.fleet.set_drained(&agent, true);
        }
        for (name, memo) in stored.jobs {
            controller.relations.jobs.restore(name, memo);
        }
        let mut finished = Vec::new();
        let mut lists = StoredLists::new();
        for stored in stored.graphs {
            controller.take_back_graph(now, stored, &mut finished);
        }
        for record in stored.tasks {
            if let TaskState::Finished { at, .. } = record.state {
                finished.push((record.id, at));
            }
            controller.take_back(now, record, &mut lists);
        }
        controller.take_back_lists(now, lists);
        controller.tasks.ids.restored_max = controller.tasks.ids.last;
        controller.tasks.ids.stored_max = controller.tasks.ids.last;
        // Only now are all members known: a family is kept from the end of its last member on.
        for (id, at) in finished {
            controller.keep_family(now, id, at);
            controller.expect_acknowledgement(now, id);
        }
        let queue = &mut controller.queue;
        let gates: Vec<_> = queue.gates.names().cloned().collect();
        queue.refresh_gated(now, gates.iter());
        controller.restore_graphs(now);
        controller.restore_relations(now);
        controller.publish_restored(now);
        controller.settle_relations(now);
        controller.plan_relations(now);
        controller.plan(now);
        controller
    }

    /// Takes a graph back before its tasks. `finished` gets its end.
    fn take_back_graph(&mut self, now: Now, stored: StoredGraph, finished: &mut Vec<(TaskId, Wall)>) {
        let id = stored.id;
        self.tasks.ids.last = self.tasks.ids.last.max(root(id));
        match OwnedGraph::restore(stored) {
            Ok(mut graph) => {
                graph.accepted.text = "".into();
                if let Some(at) = steps::ended_at(&graph) {
                    graph.has_ended = true;
                    finished.push((root(id), at));
                }
                if !graph.has_ended {
                    self.pin_all(now, &graph.accepted.pins);
                }
                self.graphs.insert(graph);
            }
            Err(refusal) => self.turn.warn(format!("graph {id} is left out: {}", refusal.message)),
        }
    }

    /// Puts a task of a step back into its slot, and into the family of its graph.
    fn take_back_place(&mut self, record: &TaskRecord) {
        let Some(place) = record.place() else { return };
        let Some(graph) = self.graphs.get_mut(place.graph) else { return };
        if let Some(slot) = graph.slot(place) {
            graph.tasks.insert(slot, record.id);
            self.tasks.families.add(record.id, root(place.graph));
        }
    }

    fn take_back(&mut self, now: Now, mut record: TaskRecord, lists: &mut StoredLists) {
        if let TaskState::OutOfContact { was, .. } = record.state {
            record.unconfirmed &= was.phase() == Phase::Dispatched;
            record.state = *was;
        }
        record.pushes += unstored_pushes(&record) + self.skipped_pushes();
        self.tasks.ids.last = self.tasks.ids.last.max(record.id);
        if let Some(parent) = record.parent.filter(|parent| self.tasks.get(*parent).is_some()) {
            self.tasks.families.add(record.id, parent);
        }
        self.take_back_place(&record);
        self.note_starts(now, &record);
        let place = match &record.state {
            TaskState::Dispatched(run) => run.ahead.as_deref().copied(),
            _ => None,
        };
        let agent = match &mut record.state {
            TaskState::Waiting { .. } | TaskState::OutOfContact { .. } | TaskState::Finished { .. } => None,
            TaskState::Dispatched(run)
            | TaskState::Preparing(run)
            | TaskState::Running(run)
            | TaskState::Ended { assignment: run, .. } => {
                run.dispatched = None;
                Some(run.agent.clone())
            }
        };
        self.await_claimants(&mut record);
        let task = record.id;
        // Its agent will say how long it has run: the wall clock may have jumped.
        self.restore_task(now, record);
        match (agent, place) {
            (Some(agent), Some(place)) => lists.entry(agent).or_default().push((place, task)),
            (Some(agent), None) => self.take_back_agent(now, &agent, task),
            (None, _) => {}
        }
    }

    pub(crate) fn take_back_agent(&mut self, now: Now, agent: &AgentId, task: TaskId) {
        let round = |task| self.tasks.get(task).map(|record| record.round).unwrap_or_default();
        let Some(slot) = self.fleet.slot(agent) else {
            self.fleet.register(now, agent.clone(), Liveness::Restored);
            self.fleet.give(agent, task, round(task));
            self.expect_every_tool(now, agent);
            return self.turn.set_timer(Timer::Silence(agent.clone()), now.mono + self.lost_after_of(agent));
        };
        let Slot::Busy(other) = slot else { unreachable!("agent {agent} was restored without a task") };
        // The older run was given up and its lease awaited: if only one of them has a lease, it is that one, whatever the
        // wall clock has shown. The time of its agent's last message is not known any more.
        let given = |task| {
            let run = self.tasks.get(task).and_then(|record| record.last_run());
            run.map(|run| (run.lease.is_none(), run.dispatched_at))
        };
        let (older, newer) = if given(other) <= given(task) { (other, task) } else { (task, other) };
        self.fleet.give(agent, newer, round(newer));
        self.void_round(now, older, RoundEnd::Lost, Remains::Unknown(now.mono));
    }

    /// Counts the recent starts at the gates, so that a new controller exceeds no pace.
    fn note_starts(&mut self, now: Now, record: &TaskRecord) {
        let past = record.past.iter().filter_map(|past| past.assignment.as_deref());
        let starts = past.chain(record.last_run()).map(|run| now.wall.since(run.dispatched_at));
        let needs = &record.policy.needs;
        if !needs.gates.is_empty() {
            for age in starts {
                self.queue.gates.note_start(now.mono.before(age), needs);
            }
        }
    }
}

/// Number of pushes that may have left after this record was stored and before the next change was: PREPARING, RUNNING and
/// ENDED. A later round is not handed out before it is stored.
const fn unstored_pushes(record: &TaskRecord) -> u32 {
    match &record.state {
        TaskState::Waiting { .. } if record.round.0 == 0 => 3,
        TaskState::Dispatched(_) => 3,
        TaskState::Preparing(_) => 2,
        TaskState::Running(_) => 1,
        TaskState::Waiting { .. }
        | TaskState::OutOfContact { .. }
        | TaskState::Ended { .. }
        | TaskState::Finished { .. } => 0,
    }
}

/// The records that a controller has stored.
#[derive(Debug, Default)]
pub struct Stored {
    /// The tasks, in the order of their ids.
    pub tasks: Vec<TaskRecord>,
    /// The gates with settings.
    pub gates: Vec<(Label, GateSettings)>,
    /// The agents that get no more tasks.
    pub drained: Vec<AgentId>,
    /// The part of each job's state that its tasks do not show.
    pub jobs: Vec<(JobName, JobMemo)>,
    /// The step graphs.
    pub graphs: Vec<StoredGraph>,
    /// The archives of tools.
    pub tools: StoredTools,
    /// The epoch of this start.
    pub epoch: Option<Epoch>,
    /// How the store shows that it is from a backup or another machine, if it is, as the beginning of a sentence.
    pub raised: Option<String>,
}

/// The archives of tools in the store.
#[derive(Debug, Default)]
pub struct StoredTools {
    /// The versions, each with its size in bytes.
    pub held: Vec<(ToolDigest, u64)>,
    /// The pushed tools.
    pub pushed: Vec<HeldTool>,
    /// The identity of the controller's own tools folder on its machine, if the folder exists.
    pub folder: Option<Arc<str>>,
    /// The identity of the folder of the store on its machine.
    pub store: Option<Arc<str>>,
}
