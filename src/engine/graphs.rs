//! The table of step graphs. It owns the graphs beside the tasks of their steps. [`steps`] turns the effects of a graph into tasks.
//!
//! A graph is the root of the family of its tasks, so that they are forgotten together. Its place in that family is an id that no
//! task has ([`root`]).

pub(crate) mod graph_status;
pub(crate) mod steps;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use graph_status::StatusLines;

use crate::graph::{Graph, GraphRun, MainTasks};
use crate::turn::effect::Record;
use api::wire::Refusal;
use api::wire::graph::{AcceptedGraph, EntryCodec, StepTerms, StoredGraph};
use base::{
    Fields, GraphEntry, GraphId, GraphStatus, GraphView, InputView, JobName, Outcome, PortName, Provided, Scalar,
    StepIndex, StepName, StepPlace, StepTask, StepView, TaskId, TaskRole, ToolDigest, ToolName, Wall, words,
};

/// Maximum number of effects of graphs in one turn. The start of a task takes some microseconds, including its record.
const SLICE: usize = 300;

/// Maximum number of effects of one graph before others get their turn.
const TURN: usize = 50;

/// A graph with its run.
#[derive(Debug)]
pub(crate) struct OwnedGraph {
    pub(crate) id: GraphId,
    /// The name of the job of its tasks: its id.
    pub(crate) job: JobName,
    pub(crate) submitted_at: Wall,
    pub(crate) accepted: AcceptedGraph,
    pub(crate) run: GraphRun,
    /// Number of its stored entries.
    entries: u32,
    /// The tasks of its slots.
    pub(crate) tasks: BTreeMap<StepTask, TaskId>,
    /// The locations of inputs that are the same for all tasks of a step and role.
    inputs: BTreeMap<(StepIndex, u32), Arc<[Arc<str>]>>,
    /// Bytes of memory that its document costs.
    pub(crate) bytes: usize,
    is_queued: bool,
    /// Whether its end has been carried out.
    pub(crate) has_ended: bool,
}

/// All graphs, and those with effects that are still to be carried out.
#[derive(Debug)]
pub(crate) struct Graphs {
    graphs: BTreeMap<GraphId, OwnedGraph>,
    submit_keys: BTreeMap<String, GraphId>,
    queue: VecDeque<GraphId>,
    /// The work that is left for this turn.
    left: usize,
    /// Bytes of the documents of graphs that have not ended.
    bytes: usize,
    /// The locations in the report that is being handled, and its task.
    provided: Option<(TaskId, Box<Provided>)>,
    /// The changes that wait for room in the pushes.
    statuses: StatusLines,
}

impl Default for Graphs {
    fn default() -> Self {
        let (graphs, submit_keys, queue) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        Self { graphs, submit_keys, queue, left: SLICE, bytes: 0, provided: None, statuses: StatusLines::default() }
    }
}

/// The id of a graph as the root of a family. No task has it, because ids never use a microsecond twice.
pub(crate) fn root(graph: GraphId) -> TaskId {
    TaskId::new(graph.wall(), [0; TaskId::SUFFIX_LEN])
}

impl Graphs {
    pub(crate) fn get(&self, id: GraphId) -> Option<&OwnedGraph> {
        self.graphs.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: GraphId) -> Option<&mut OwnedGraph> {
        self.graphs.get_mut(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.graphs.len()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &OwnedGraph> {
        self.graphs.values()
    }

    /// The graph whose tasks are those of this job.
    pub(crate) fn of_job(&self, name: &JobName) -> Option<&OwnedGraph> {
        self.get(name.as_str().parse().ok()?)
    }

    /// The graph that is the root of this family.
    pub(crate) fn of_root(&self, root: TaskId) -> Option<&OwnedGraph> {
        let first = GraphId::new(root.wall(), [0; TaskId::SUFFIX_LEN]);
        self.graphs.range(first..).next().map(|(_, graph)| graph).filter(|graph| graph.id.wall() == root.wall())
    }

    pub(crate) fn with_submit_key(&self, key: &str) -> Option<&OwnedGraph> {
        self.get(*self.submit_keys.get(key)?)
    }

    /// Bytes of the documents of graphs that have not ended.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn insert(&mut self, graph: OwnedGraph) {
        let id = graph.id;
        if let Some(key) = graph.accepted.fields.text(words::SUBMIT_KEY) {
            self.submit_keys.insert(key.to_owned(), id);
        }
        if !graph.has_ended {
            self.bytes += graph.bytes;
        }
        self.graphs.insert(id, graph);
        self.enqueue(id);
    }

    pub(crate) fn remove(&mut self, id: GraphId) -> Option<OwnedGraph> {
        let graph = self.graphs.remove(&id)?;
        if let Some(key) = graph.accepted.fields.text(words::SUBMIT_KEY)
            && self.submit_keys.get(key) == Some(&id)
        {
            self.submit_keys.remove(key);
        }
        if !graph.has_ended {
            self.bytes -= graph.bytes;
        }
        self.queue.retain(|queued| *queued != id);
        Some(graph)
    }

    /// The end of a graph has been carried out. The first call returns the versions that the graph had pinned.
    pub(crate) fn note_end(&mut self, id: GraphId) -> Option<BTreeMap<ToolName, ToolDigest>> {
        let graph = self.graphs.get_mut(&id).filter(|graph| !graph.has_ended)?;
        graph.has_ended = true;
        self.bytes -= graph.bytes;
        Some(graph.accepted.pins.clone())
    }

    /// The locations in the report that is being handled, with its task.
    pub(crate) fn note_provided(&mut self, provided: Option<(TaskId, Box<Provided>)>) {
        self.provided = provided;
    }

    /// The locations that this task reports with its end.
    fn take_provided(&mut self, task: TaskId) -> Option<Provided> {
        self.provided.take().filter(|(reporter, _)| *reporter == task).map(|(_, all)| *all)
    }

    /// A turn has ended: the next one does its share of work.
    pub(crate) const fn begin_turn(&mut self) {
        self.left = SLICE;
    }

    /// Whether this turn is to do more work.
    pub(crate) fn has_work(&self) -> bool {
        self.left > 0 && !self.is_settled()
    }

    /// Whether no graph has effects.
    pub(crate) fn is_settled(&self) -> bool {
        self.queue.is_empty()
    }

    /// A graph may have effects.
    pub(crate) fn enqueue(&mut self, id: GraphId) {
        if let Some(graph) = self.graphs.get_mut(&id)
            && !std::mem::replace(&mut graph.is_queued, true)
        {
            self.queue.push_back(id);
        }
    }

    /// The next graph with effects, and how many of them are to be carried out at once.
    pub(crate) fn next(&mut self) -> Option<(GraphId, usize)> {
        let id = self.queue.pop_front()?;
        if let Some(graph) = self.graphs.get_mut(&id) {
            graph.is_queued = false;
        }
        Some((id, TURN.min(self.left)))
    }

    /// Deducts this work from the share of the turn.
    pub(crate) const fn spend(&mut self, work: usize) {
        self.left = self.left.saturating_sub(work);
    }

    pub(crate) fn sanity_check(&self) {
        for graph in self.graphs.values() {
            graph.run.sanity_check();
            assert_eq!(graph.is_queued, self.queue.contains(&graph.id), "the work of graph {}", graph.id);
            assert!(graph.is_queued || graph.run.is_settled(), "graph {} has effects and no turn", graph.id);
            let is_over = graph.run.ended_at().is_some() && graph.run.is_settled();
            assert!(!graph.has_ended || is_over, "graph {} has ended too early", graph.id);
            assert!(graph.is_queued || graph.has_ended == is_over, "the end of graph {} is missed", graph.id);
        }
        let open = self.graphs.values().filter(|graph| !graph.has_ended);
        assert_eq!(self.bytes, open.map(|graph| graph.bytes).sum::<usize>(), "the bytes of graphs have drifted");
    }
}

impl OwnedGraph {
    /// A graph that begins. `plan` has the connected steps of its document.
    pub(crate) fn new(id: GraphId, at: Wall, accepted: AcceptedGraph, plan: Arc<Graph>) -> Self {
        let run = GraphRun::new(plan, accepted.partitions_max, at);
        Self::with(id, at, accepted, run, 0)
    }

    /// A graph as it was stored.
    ///
    /// # Errors
    /// -1007 when its steps do not fit together, so that no graph like it was ever accepted.
    pub(crate) fn restore(stored: StoredGraph) -> Result<Self, Refusal> {
        let StoredGraph { id, submitted_at, graph: accepted, entries } = stored;
        let graph = Arc::new(Graph::new(&accepted.document)?);
        let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        let run = GraphRun::restore(graph, accepted.partitions_max, submitted_at, entries);
        Ok(Self::with(id, submitted_at, accepted, run, count))
    }

    fn with(id: GraphId, submitted_at: Wall, accepted: AcceptedGraph, run: GraphRun, entries: u32) -> Self {
        let Ok(job) = JobName::new(&id.to_string()) else { unreachable!("the id {id} is the name of a job") };
        let bytes = accepted.bytes();
        let (tasks, inputs) = (BTreeMap::new(), BTreeMap::new());
        Self { id, job, submitted_at, accepted, run, entries, tasks, inputs, bytes, is_queued: false, has_ended: false }
    }

    /// The record of the graph itself. Its text is not needed any more.
    pub(crate) fn record(&mut self) -> Record {
        let row = self.accepted.encode(self.id, self.submitted_at);
        self.accepted.text = "".into();
        Record::Graph(self.id, Some(Box::new(row)))
    }

    /// The record of its next entry.
    pub(crate) fn entry(&mut self, entry: &GraphEntry) -> Record {
        let Some(text) = EntryCodec::encode(&self.accepted.document, entry) else {
            unreachable!("graph {}: {entry:?} is not one of its entries", self.id)
        };
        self.entries += 1;
        Record::GraphEntry(self.id, self.entries, text.into())
    }

    /// The slot of a task, given the names of its place.
    pub(crate) fn slot(&self, place: &StepPlace) -> Option<StepTask> {
        let graph = self.run.scheduler().graph();
        let step = graph.named(&place.step)?;
        let role = match &place.prepares {
            None => TaskRole::Main,
            Some(port) => {
                let at = graph.step(step).inputs.iter().position(|input| input.name == *port)?;
                TaskRole::Prepare(u32::try_from(at).ok()?)
            }
        };
        Some(StepTask { step, role, number: place.partition })
    }

    /// The names of the place of a task, given its slot.
    pub(crate) fn place(&self, slot: StepTask) -> StepPlace {
        let plan = self.run.scheduler().graph().step(slot.step);
        let prepares = match slot.role {
            TaskRole::Main => None,
            TaskRole::Prepare(input) => Some(plan.inputs[input as usize].name.clone()),
        };
        StepPlace { graph: self.id, step: plan.name.clone(), prepares, partition: slot.number }
    }

    /// The terms of the tasks of a step.
    pub(crate) fn terms(&self, step: StepIndex) -> Option<&StepTerms> {
        self.accepted.steps.get(step.at())?.as_ref()
    }

    /// The locations that a task finds at each input of its role.
    pub(crate) fn inputs_of(&mut self, slot: StepTask) -> BTreeMap<PortName, Arc<[Arc<str>]>> {
        let Self { run, inputs, .. } = self;
        let graph = Arc::clone(run.scheduler().graph());
        let plan = graph.step(slot.step);
        let is_own = |input| slot.role == TaskRole::Main && plan.main == MainTasks::PerPartition(input);
        let wanted = |input: &u32| match slot.role {
            TaskRole::Main => true,
            TaskRole::Prepare(own) => *input == own,
        };
        let of_input = |input: u32| {
            let list: Arc<[Arc<str>]> = if is_own(input) {
                run.input(slot, input).into()
            } else {
                // All its upstream steps have ended, so the list is final.
                Arc::clone(inputs.entry((slot.step, input)).or_insert_with(|| run.input(slot, input).into()))
            };
            (plan.inputs[input as usize].name.clone(), list)
        };
        (0..).take(plan.inputs.len()).filter(wanted).map(of_input).collect()
    }

    /// A step has ended: its tasks need no inputs any more.
    pub(crate) fn forget_inputs(&mut self, step: StepIndex) {
        let of_step: Vec<_> = self.inputs.range((step, 0)..=(step, u32::MAX)).map(|(key, _)| *key).collect();
        of_step.iter().for_each(|key| drop(self.inputs.remove(key)));
    }

    /// The outcome of a task that ends as the graph has ended.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        match self.run.status() {
            GraphStatus::Running => None,
            GraphStatus::Succeeded => Some(Outcome::Succeeded),
            GraphStatus::Failed => Some(Outcome::Failed),
            GraphStatus::Killed => Some(Outcome::Killed),
        }
    }

    /// Its state for clients.
    pub(crate) fn view(&self) -> GraphView {
        GraphView {
            id: self.id,
            name: self.accepted.document.name.clone(),
            given_id: self.accepted.fields.get(words::GIVEN_ID).cloned(),
            status: self.run.status(),
            reason: self.run.reason().map(str::to_owned),
            submitted_at: self.submitted_at,
            ended_at: self.run.ended_at(),
            steps: self.run.counts(),
        }
    }

    /// The state of a step for clients, without the phases of its tasks.
    pub(crate) fn step_view(&self, step: StepIndex) -> (StepView, Vec<TaskId>) {
        use crate::graph::{InputId, OutputId};
        let (scheduler, terms) = (self.run.scheduler(), self.terms(step));
        let graph = scheduler.graph();
        let plan = graph.step(step);
        let source = |of: &OutputId| {
            let from = graph.step(of.step);
            (from.name.clone(), from.outputs[of.output as usize].name.clone())
        };
        let input = |input: u32| {
            let port = &plan.inputs[input as usize];
            let activity = scheduler.input_activity(InputId { step, input });
            InputView { name: port.name.clone(), activity, sources: port.sources.iter().map(source).collect() }
        };
        let output = |output: u32| {
            let name = plan.outputs[output as usize].name.clone();
            (name, scheduler.output_activity(OutputId { step, output }))
        };
        let first = StepTask { step, role: TaskRole::Main, number: 0 };
        let last = StepTask { step, role: TaskRole::Prepare(u32::MAX), number: u32::MAX };
        let tasks = || self.tasks.range(first..=last).map(|(_, task)| *task);
        let inputs = u32::try_from(plan.inputs.len()).unwrap_or(u32::MAX);
        let view = StepView {
            name: plan.name.clone(),
            state: scheduler.state(step),
            tool: terms.map(|terms| terms.shown.clone()),
            inputs: (0..plan.main_inputs).map(input).collect(),
            sub_inputs: (plan.main_inputs..inputs).map(input).collect(),
            outputs: (0..).take(plan.outputs.len()).map(output).collect(),
            holdup: scheduler.holdup(step).filter(|_| self.run.status() == GraphStatus::Running),
            tasks: Vec::new(),
            task_count: tasks().count(),
            times: *self.run.times(step),
        };
        (view, tasks().take(StepView::TASKS_MAX).collect())
    }

    /// Whether the graph was submitted with the same document and the same fields.
    pub(crate) fn is_submitted_as(&self, other: &AcceptedGraph) -> bool {
        let (ours, theirs) = (&self.accepted.fields, &other.fields);
        let has = |(name, value): (&str, &Scalar)| ours.get(name) == Some(value);
        ours.len() == theirs.len() && Fields::iter(theirs).all(has) && self.accepted.document == other.document
    }

    /// The step with this name.
    pub(crate) fn step(&self, name: &StepName) -> Option<StepIndex> {
        self.run.scheduler().graph().named(name)
    }
}
