//! GRAPH/SUBMIT, GRAPH/QUERY, GRAPH/DETAILS and GRAPH/KILL: step graphs.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Answer, Code, Controller, Filter, Goal, Page, Query, Refusal, Reply, Request, Ticket, words};
use crate::graph::Graph;
use crate::graphs::OwnedGraph;
use crate::relations::jobs::Job;
use api::wire::graph::AcceptedGraph;
use api::wire::page::PageOf;
use api::wire::requests::graph::{GraphSubmit, unknown_fields};
use base::{GraphEvent, GraphId, Mono, Now, Requirements, StepIndex, TaskRecord, ToolName, Wall};

impl Controller {
    /// Handles the submit of a graph whose steps have been connected.
    pub fn handle_planned(&mut self, now: Now, ticket: Ticket, submit: GraphSubmit, plan: Arc<Graph>) -> Answer {
        let request = Request::GraphSubmit(Box::new(submit));
        if self.must_postpone(ticket, &request) {
            return self.postpone(ticket, request, Some(plan));
        }
        let Request::GraphSubmit(submit) = request else { unreachable!("it was made of the submit of a graph") };
        let reply = self.submit_graph(now, *submit, Some(plan));
        self.settle(now);
        reply.into()
    }

    /// Accepts a graph. `plan` are its connected steps, if that was done before.
    pub(super) fn submit_graph(&mut self, now: Now, submit: GraphSubmit, plan: Option<Arc<Graph>>) -> Reply {
        self.submit_checked_graph(now, submit, plan).unwrap_or_else(Reply::Refused)
    }

    fn submit_checked_graph(
        &mut self,
        now: Now,
        submit: GraphSubmit,
        plan: Option<Arc<Graph>>,
    ) -> Result<Reply, Refusal> {
        if let Some(reply) = self.check_graph(now, &submit)? {
            return Ok(reply);
        }
        let plan = match plan {
            Some(plan) => plan,
            None => Arc::new(Graph::new(&submit.graph.document)?),
        };
        let steps = submit.graph.document.steps.iter().zip(&submit.graph.steps);
        for (step, tool) in steps.filter_map(|(step, terms)| Some((&step.name, &terms.as_ref()?.tool))) {
            self.check_tool(tool, &format!("step {step}: "), "graph")?;
        }
        Ok(self.accept_graph(now, submit, plan))
    }

    /// Whether a graph can be accepted now, apart from its tools. Returns the reply if the same submit came before.
    fn check_graph(&self, now: Now, submit: &GraphSubmit) -> Result<Option<Reply>, Refusal> {
        self.check_open()?;
        if let Some(graph) = self.graph_of_key(submit)? {
            let warning = unknown_fields(&submit.unknown);
            return Ok(Some(Reply::GraphSubmitted { graph, warning, duplicate: true }));
        }
        if let Some(trouble) = &self.mode.store_trouble {
            let message = format!("the graph cannot be stored ({trouble}); submit it again later");
            return Err(Refusal::new(Code::LimitReached, message));
        }
        self.check_room_for(now, &submit.graph)?;
        Ok(None)
    }

    fn accept_graph(&mut self, now: Now, submit: GraphSubmit, plan: Arc<Graph>) -> Reply {
        let warning = unknown_fields(&submit.unknown);
        let id = self.tasks.new_graph_id(now.wall);
        let mut accepted = submit.graph;
        let held = |tool: &ToolName| Some((tool.clone(), self.archives.catalog.present(tool)?.digest));
        accepted.pins = accepted.steps.iter().flatten().filter_map(|terms| held(&terms.tool)).collect();
        self.pin_all(now, &accepted.pins);
        let mut graph = OwnedGraph::new(id, now.wall, accepted, plan);
        let record = graph.record();
        self.turn.store(record);
        self.graphs.insert(graph);
        Reply::GraphSubmitted { graph: id, warning, duplicate: false }
    }

    /// The graph that already belongs to this key, if it was submitted with the same document and fields.
    fn graph_of_key(&self, submit: &GraphSubmit) -> Result<Option<GraphId>, Refusal> {
        let Some(key) = submit.submit_key() else { return Ok(None) };
        let Some(first) = self.graphs.with_submit_key(key) else { return Ok(None) };
        if first.is_submitted_as(&submit.graph) {
            return Ok(Some(first.id));
        }
        let message = format!(
            "{} {key} belongs to graph {}, which was submitted with another document or other fields; use a key of its own for \
             each graph",
            words::SUBMIT_KEY,
            first.id
        );
        Err(Refusal::new(Code::BadField, message))
    }

    /// Whether there is room for all tasks of a graph that are known before it runs.
    fn check_room_for(&self, now: Now, graph: &AcceptedGraph) -> Result<(), Refusal> {
        for (step, terms) in graph.document.steps.iter().zip(&graph.steps) {
            let end = terms.as_ref().and_then(|terms| terms.policy.end_before).filter(|at: &Wall| *at <= now.wall);
            if let Some(at) = end {
                let message =
                    format!("step {}: {} is {at}, which has passed; use a later moment", step.name, words::END_BEFORE);
                return Err(Refusal::new(Code::BadField, message));
            }
        }
        let limit = |message: String| Err(Refusal::new(Code::LimitReached, message));
        let (waiting, tasks, max) = (self.queue.len(), graph.document.tasks(), self.settings.waiting_max);
        if waiting.saturating_add(tasks) > max {
            return limit(format!(
                "{waiting} of {max} tasks wait already (WAITING_TASKS_MAX), and this graph has {tasks}; try again later"
            ));
        }
        let bytes = tasks.saturating_mul(size_of::<TaskRecord>()).saturating_add(graph.bytes());
        let (held, max) = (self.queue.bytes() + self.graphs.bytes(), self.settings.waiting_bytes_max);
        if held.saturating_add(bytes) > max {
            return limit(format!(
                "the waiting tasks and the graphs hold {held} bytes already, and this graph needs {bytes}; WAITING_BYTES_MAX is \
                 {max}; try again later"
            ));
        }
        let needs = graph.steps.iter().flatten().map(|terms| &terms.policy.needs);
        let needs: BTreeSet<&Requirements> =
            needs.filter(|needs| !needs.gates.is_empty() || !needs.tags.is_empty()).collect();
        let known = needs.iter().map(|needs| self.queue.other_needs(needs)).max().unwrap_or_default();
        if known + needs.len() > self.settings.needs_max {
            let (gate, tags) = (words::GATE, words::TAGS);
            return limit(format!(
                "tasks with {known} different combinations of {gate} and {tags} wait already (WAITING_NEEDS_MAX), and this graph has \
                 {}; try again later",
                needs.len()
            ));
        }
        Ok(())
    }

    /// The state of a graph, or, with a time, parks the query until it has ended.
    pub(super) fn query_graph(&mut self, ticket: Ticket, id: GraphId, wait_until: Option<Mono>) -> Answer {
        let is_open = self.graphs.get(id).is_some_and(|graph| !graph.has_ended);
        match wait_until.filter(|_| is_open) {
            None => self.graph_reply(id).into(),
            Some(until) => self.park_query(ticket, Query::Graph(id), until),
        }
    }

    /// The answer to a query of a graph.
    pub(crate) fn graph_reply(&self, id: GraphId) -> Reply {
        match self.graphs.get(id) {
            Some(graph) => Reply::Graph(Box::new(graph.view())),
            None => Reply::Refused(Refusal::no_such_graph(id)),
        }
    }

    pub(super) fn list_graphs(&mut self, now: Now, ticket: Ticket, graph: Option<GraphId>, page: Page) -> Answer {
        if let Some(id) = graph.filter(|id| self.graphs.get(*id).is_none()) {
            return Reply::Refused(Refusal::no_such_graph(id)).into();
        }
        let goal = Goal::Graphs { graph, page, limit: self.page_limit(page.limit) };
        self.search(now, ticket, Filter::default(), goal)
    }

    /// A page of graphs, or of the steps of one.
    pub(crate) fn page_of_graphs(&self, graph: Option<GraphId>, page: Page, limit: usize) -> Reply {
        let Page { offset, limit: asked } = page;
        let Some(id) = graph else {
            let graphs = self.graphs.iter().rev().skip(offset).take(limit).map(OwnedGraph::view).collect();
            return Reply::Graphs { graphs, page: PageOf { offset, asked, total: self.graphs.len() } };
        };
        let Some(graph) = self.graphs.get(id) else { return Reply::Refused(Refusal::no_such_graph(id)) };
        let total = graph.accepted.document.steps.len();
        let indexes = (0..).map(StepIndex).take(total).skip(offset).take(limit);
        let view = |step| {
            let (mut view, tasks) = graph.step_view(step);
            let phase = |task| Some((self.tasks.get(task)?.phase(), task));
            view.tasks = tasks.into_iter().filter_map(phase).collect();
            view
        };
        Reply::Steps { steps: indexes.map(view).collect(), page: PageOf { offset, asked, total } }
    }

    /// Ends a graph. Returns the number of its tasks that had not ended.
    pub(super) fn kill_graph(&mut self, now: Now, id: GraphId, said: Option<&Arc<str>>) -> Result<usize, Refusal> {
        let Some(graph) = self.graphs.get(id) else { return Err(Refusal::no_such_graph(id)) };
        let job = self.relations.job(&graph.job);
        let count = job.map_or(0, Job::unfinished);
        let why = said.map_or_else(|| "killed by a client".to_owned(), |said| format!("killed by a client: {said}"));
        self.graph_event(now, id, GraphEvent::Kill(why.into()));
        Ok(count)
    }
}
