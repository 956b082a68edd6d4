//! Step graphs: what a seed plans, and their rules: every graph ends, each slot has one task, the changes are told in order, and
//! the end is the one that its tasks and its orders make.

use std::collections::{BTreeMap, BTreeSet};

use api::wire::graph::{state, status};
use base::json::FieldLimits;
use base::{
    GraphChange, GraphId, GraphStatus, KillCause, Outcome, Phase, Round, Scalar, StepContext, StepRole, StepState,
    TaskId, TaskRecord, TaskState, json,
};

use crate::simulation::client::Order;
use crate::simulation::dice::{Dice, MILLI, Nanos, SECOND};
use crate::simulation::plan::{Prepare, Spawn, Start, TaskPlan};
use crate::simulation::policy_fields::PolicyFields;
use crate::simulation::relations::RelationsPlan;
use crate::simulation::tools::{TOOLS, tool_name};
use crate::simulation::world::{World, note};

/// What a seed plans for one graph.
#[derive(Clone, Debug)]
pub(crate) struct GraphPlan {
    at: Nanos,
    steps: Vec<StepPlan>,
    /// How long after its submit was acknowledged it is killed.
    kill_after: Option<Nanos>,
    /// The steps that end early, each so long after the submit was acknowledged.
    early: Vec<(usize, Nanos)>,
}

#[derive(Clone, Debug)]
struct StepPlan {
    /// The plan of its tasks; an exchange has none.
    tasks: Option<usize>,
    tool: usize,
    count: Count,
    /// The steps that its input takes.
    inputs: Vec<usize>,
    /// The step that its sub input takes, and the number of tasks that prepare it.
    sub: Option<(usize, usize)>,
    /// Locations that each run of it announces at once.
    announces: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Count {
    Number(usize),
    PerPartition,
}

/// The graphs of a seed; adds the plans of their tasks. The dice are its own, so that a seed without graphs runs as if there were
/// none.
pub(crate) fn plan(seed: u64, tasks: &mut Vec<TaskPlan>, calm: Nanos) -> Vec<GraphPlan> {
    let mut dice = Dice::new(seed ^ 0x6772_6170_6873);
    if !dice.chance(250) {
        return Vec::new();
    }
    (0..1 + dice.index(2)).map(|_| GraphPlan::new(&mut dice, tasks, calm)).collect()
}

impl GraphPlan {
    fn new(dice: &mut Dice, tasks: &mut Vec<TaskPlan>, calm: Nanos) -> Self {
        let may_fail = dice.chance(250);
        let count = 1 + dice.index(5);
        let steps = (0..count).map(|step| StepPlan::new(dice, step, may_fail, tasks)).collect();
        let early = (0..count).filter(|_| dice.chance(80)).collect::<Vec<_>>();
        let early = early.into_iter().map(|step| (step, dice.skewed(0..=2 * SECOND))).collect();
        Self {
            at: dice.within(0..=calm * 3 / 4),
            steps,
            kill_after: dice.chance(120).then(|| dice.skewed(0..=3 * SECOND)),
            early,
        }
    }

    pub(crate) fn body(&self, plan: usize) -> String {
        let steps: Vec<_> = (0..).zip(&self.steps).map(|(number, step)| step.document(number)).collect();
        let document = format!(r#"{{"policy":{{"__MAX_LOSSES__":50}},"steps":{{{}}}}}"#, steps.join(","));
        let document = serde_json::to_string(&document).expect("a text");
        format!(r#"{{"__TYPE__":"GRAPH/SUBMIT","__SUBMIT_KEY__":"graph {plan}","__GRAPH__":{document}}}"#)
    }
}

impl StepPlan {
    fn new(dice: &mut Dice, step: usize, may_fail: bool, tasks: &mut Vec<TaskPlan>) -> Self {
        let inputs: Vec<usize> = (0..step).filter(|_| dice.chance(500)).collect();
        let is_exchange = !inputs.is_empty() && dice.chance(150);
        let sub = (step > 0 && !is_exchange && dice.chance(250)).then(|| (dice.index(step), dice.index(3)));
        let tool = dice.index(TOOLS);
        let count =
            if !inputs.is_empty() && dice.chance(500) { Count::PerPartition } else { Count::Number(dice.index(4)) };
        let announces = if dice.chance(300) { 1 + dice.index(3) } else { 0 };
        let plan = TaskPlan {
            start: Start::OfGraph,
            duration: dice.skewed(MILLI..=SECOND),
            exit_code: i32::from(may_fail && dice.chance(150)),
            ignores_term: dice.chance(200),
            poison: false,
            stragglers: vec![],
            prepare: Prepare::Quick,
            spawn: Spawn::Works,
            losses_max: None,
            pushed: false,
            kill_after: None,
            awaited: false,
            policy_fields: PolicyFields::default(),
            relations: RelationsPlan::default(),
            is_expected_short: false,
            tool,
        };
        let number = tasks.len();
        if !is_exchange {
            tasks.push(plan);
        }
        Self { tasks: (!is_exchange).then_some(number), tool, count, inputs, sub, announces }
    }

    fn document(&self, number: usize) -> String {
        let mut keys = Vec::new();
        if !self.inputs.is_empty() {
            let sources: Vec<_> = self.inputs.iter().map(|step| format!(r#""s{step}.out""#)).collect();
            keys.push(format!(r#""inputs":{{"in":[{}]}}"#, sources.join(",")));
        }
        if let Some((step, tasks)) = self.sub {
            keys.push(format!(r#""sub_inputs":{{"sub":["s{step}.out"]}},"prepare":{{"sub":{tasks}}}"#));
        }
        if let Some(plan) = self.tasks {
            let count = match self.count {
                Count::Number(count) => count.to_string(),
                Count::PerPartition => r#""in""#.to_owned(),
            };
            let tool = tool_name(self.tool);
            keys.push(format!(r#""operation":"{tool}","tasks":{count},"parameters":{{"plan":{plan}}}"#));
        }
        format!(r#""s{number}":{{{}}}"#, keys.join(","))
    }
}

/// What is known of the graphs.
#[derive(Default)]
pub(crate) struct GraphModel {
    /// The accepted graphs, by their plans.
    accepted: BTreeMap<usize, GraphId>,
    /// The tasks of slots that have had a run.
    ran: BTreeMap<(GraphId, String, String, u32), TaskId>,
    killed: BTreeSet<GraphId>,
    completed: BTreeSet<(GraphId, String)>,
    /// The last number, and the life of the controller that told it.
    told: BTreeMap<GraphId, (u64, u64)>,
    states: BTreeMap<(GraphId, String), StepState>,
    ends: BTreeMap<GraphId, GraphStatus>,
    /// The tasks that have announced something.
    announcing: BTreeSet<TaskId>,
}

impl World {
    pub(crate) fn begin_graphs(&mut self) {
        for plan in 0..self.plan.graphs.len() {
            self.graph_after(self.plan.graphs[plan].at, plan);
        }
    }

    pub(crate) fn graph_accepted(&mut self, plan: usize, graph: GraphId) {
        let first = *self.model.graphs.accepted.entry(plan).or_insert(graph);
        assert_eq!(first, graph, "one key has made two graphs");
        assert!(self.server.graphs.contains_key(&graph), "graph {graph} is accepted before it is stored");
        note!(self, "graph {plan} is {graph}");
        let GraphPlan { kill_after, early, .. } = self.plan.graphs[plan].clone();
        if let Some(delay) = kill_after {
            self.model.graphs.killed.insert(graph);
            let body = format!(r#"{{"__TYPE__":"GRAPH/KILL","__GRAPH_ID__":"{graph}"}}"#);
            self.order_after(delay, Order::Graph(body));
        }
        for (step, delay) in early {
            self.model.graphs.completed.insert((graph, format!("s{step}")));
            let body = format!(r#"{{"__TYPE__":"STEP/COMPLETE","__GRAPH_ID__":"{graph}","__STEP__":"s{step}"}}"#);
            self.order_after(delay, Order::Graph(body));
        }
    }

    /// A run of a step has begun.
    pub(crate) fn step_runs(&mut self, task: TaskId, round: Round, step: &StepContext) {
        let role = match &step.role {
            StepRole::Main => String::new(),
            StepRole::Prepare(port) => port.to_string(),
        };
        let slot = (step.graph, step.step.to_string(), role, step.partition);
        let first = *self.model.graphs.ran.entry(slot.clone()).or_insert(task);
        assert_eq!(first, task, "two tasks run for one slot: {slot:?}");
        let entry = self.model.graphs.accepted.iter().find(|(_, graph)| **graph == step.graph);
        let Some(plan) = entry.map(|(plan, _)| *plan) else { return };
        let number: usize = step.step.as_str()[1..].parse().expect("a name of ours");
        if step.role == StepRole::Main {
            for location in 0..self.plan.graphs[plan].steps[number].announces {
                self.model.graphs.announcing.insert(task);
                self.operate(format!(
                    r#"{{"__TYPE__":"STEP/PROVIDING","__TASK_ID__":"{task}","__ROUND__":{round},"__PORT__":"out","__LOCATION__":"{task}/{location}"}}"#
                ));
            }
        }
    }

    /// The pushes have room for a few changes, or for many.
    pub(crate) fn give_push_room(&mut self) {
        let room = if self.plan.graphs.is_empty() { 1 } else { 1 + self.dice.index(40) };
        self.life().sequencer.controller().handle_push_room(|_| room);
        let now = self.now;
        if self.life().sequencer.controller().has_push_room(|_| room) {
            self.wake_controller(now + MILLI);
        }
    }

    /// A change of a graph has left.
    pub(crate) fn graph_changed(&mut self, change: &GraphChange) {
        let life = self.life().number;
        note!(self, "{} changes for the time {}: {:?}", change.graph, change.seq, change.step);
        let model = &mut self.model.graphs;
        let (seq, told_in) = model.told.insert(change.graph, (change.seq, life)).unwrap_or_default();
        assert!(change.seq > seq, "change {} of {} comes after {seq}", change.seq, change.graph);
        let is_next = change.seq == seq + 1;
        assert!(is_next || told_in != life, "change {} of {} comes after {seq} in one life", change.seq, change.graph);
        assert!(!model.ends.contains_key(&change.graph), "{} changes after its end", change.graph);
        match &change.step {
            Some((step, reached)) => {
                let before = model.states.insert((change.graph, step.to_string()), *reached);
                let before = before.unwrap_or(StepState::Created);
                assert!(before < *reached, "step {step} goes from {} to {}", state(before), state(*reached));
                assert_eq!(change.status, GraphStatus::Running);
            }
            None => drop(model.ends.insert(change.graph, change.status)),
        }
    }

    /// Whether every accepted graph has ended.
    pub(crate) fn graphs_are_done(&mut self) -> bool {
        let graphs: Vec<GraphId> = self.model.graphs.accepted.values().copied().collect();
        graphs.into_iter().all(|graph| self.graph_status(graph).0 != status(GraphStatus::Running))
    }

    fn graph_status(&mut self, graph: GraphId) -> (String, String) {
        let question = format!(r#"{{"__TYPE__":"GRAPH/QUERY","__GRAPH_ID__":"{graph}"}}"#);
        let answer = self.ask_directly(question.as_bytes());
        let fields = json::parse(&answer, &FieldLimits::TRUSTED).expect("a flat answer");
        let text = |name| fields.get(name).and_then(Scalar::as_text).unwrap_or_default().to_owned();
        (text("__STATUS__"), text("__REASON__"))
    }

    /// The end of each graph is the one that its tasks and its orders make.
    pub(crate) fn check_graphs(&mut self) {
        for (plan, graph) in self.model.graphs.accepted.clone() {
            let (said, reason) = self.graph_status(graph);
            let tasks: Vec<TaskRecord> = self.server.disk.values().filter(|task| is_of(task, graph)).cloned().collect();
            check_slots(&tasks);
            let failed = |task: &&TaskRecord| outcome(task) != Outcome::Succeeded && !was_told(task);
            // A run that had not heard of the early end of its step may end with a failure of its own, which is none of the graph.
            let early = self.early_steps(plan, graph);
            let ended_early = |task: &TaskRecord| task.place().is_some_and(|place| early.contains(place.step.as_str()));
            match said.as_str() {
                "SUCCEEDED" => {
                    let is_wrong = |task: &TaskRecord| failed(&task) && !ended_early(task);
                    assert!(!tasks.iter().any(is_wrong), "{graph} has succeeded with a failed task");
                    self.check_counts_of(plan, graph, &tasks);
                }
                "FAILED" => {
                    let is_named = tasks.iter().filter(failed).any(|task| reason.contains(&task.id.to_string()));
                    assert!(is_named, "{graph} has failed, but {reason:?} names no failed task of it");
                }
                "KILLED" => assert!(self.model.graphs.killed.contains(&graph), "{graph} was never killed"),
                other => panic!("{graph} is {other} in the end"),
            }
            if let Some(end) = self.model.graphs.ends.get(&graph) {
                assert_eq!(status(*end), said, "the last change of {graph}");
            }
        }
    }

    /// The steps that may have ended early: by an order, or because all steps that take their outputs have.
    fn early_steps(&self, plan: usize, graph: GraphId) -> BTreeSet<String> {
        let steps = &self.plan.graphs[plan].steps;
        let mut early = BTreeSet::new();
        // Sources come before the steps that take from them.
        for number in (0..steps.len()).rev() {
            let takes =
                |step: &StepPlan| step.inputs.contains(&number) || step.sub.is_some_and(|(sub, _)| sub == number);
            let mut sinks =
                (0..).zip(steps).filter(|(_, step)| takes(step)).map(|(sink, _)| format!("s{sink}")).peekable();
            let name = format!("s{number}");
            let is_told = self.model.graphs.completed.contains(&(graph, name.clone()));
            if is_told || sinks.peek().is_some() && sinks.all(|sink: String| early.contains(&sink)) {
                early.insert(name);
            }
        }
        early
    }

    /// Each step has the number of tasks that the steps before it make, unless something was announced or ended early.
    fn check_counts_of(&self, plan: usize, graph: GraphId, tasks: &[TaskRecord]) {
        let model = &self.model.graphs;
        if model.completed.iter().any(|(of, _)| *of == graph)
            || tasks.iter().any(|task| model.announcing.contains(&task.id))
        {
            return;
        }
        let steps = &self.plan.graphs[plan].steps;
        let mut partitions: Vec<usize> = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let reach: usize = step.inputs.iter().map(|input| partitions[*input]).sum();
            let main = match (step.tasks, step.count) {
                (None, _) => 0,
                (_, Count::Number(count)) => count,
                (_, Count::PerPartition) => reach,
            };
            partitions.push(if step.tasks.is_none() { reach } else { main });
            let prepare = step.sub.filter(|_| step.tasks.is_some()).map_or(0, |(_, count)| count);
            let name = format!("s{number}");
            let of_step = tasks.iter().filter(|task| task.place().is_some_and(|place| place.step.as_str() == name));
            assert_eq!(of_step.count(), main + prepare, "the tasks of step {name} of {graph}");
        }
    }
}

fn is_of(task: &TaskRecord, graph: GraphId) -> bool {
    task.place().is_some_and(|place| place.graph == graph)
}

fn outcome(task: &TaskRecord) -> Outcome {
    match task.state {
        TaskState::Finished { outcome, .. } => outcome,
        _ => panic!("{} has not finished", task.id),
    }
}

/// Whether a task ended because its step or its graph did.
fn was_told(task: &TaskRecord) -> bool {
    let by_graph = |cause: &KillCause| matches!(cause, KillCause::Skipped(_) | KillCause::GraphEnds(_));
    task.kill.as_ref().is_some_and(|kill| by_graph(&kill.cause))
}

/// No slot has two tasks.
fn check_slots(tasks: &[TaskRecord]) {
    let mut slots = BTreeMap::new();
    for task in tasks {
        let Some(place) = task.place() else { continue };
        let slot = (place.step.to_string(), place.prepares.as_ref().map(ToString::to_string), place.partition);
        if let Some(other) = slots.insert(slot.clone(), task.id) {
            panic!("{other} and {} are both the task of {slot:?}", task.id);
        }
        assert_eq!(task.phase(), Phase::Finished);
    }
}

impl GraphModel {
    /// README.md, promise 1.
    pub(crate) fn controller_started(&self, is_stored: impl Fn(GraphId) -> bool) {
        for graph in self.accepted.values() {
            assert!(is_stored(*graph), "the accepted graph {graph} is lost");
        }
    }
}
