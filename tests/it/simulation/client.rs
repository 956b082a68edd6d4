//! Clients with plain REQ sockets: they submit, kill, ask and wait, and ask again when no answer comes.

use std::time::Duration;

use base::json::FieldLimits;
use base::{Fields, Phase, Scalar, TaskId, TaskRecord, TaskState, json};

use crate::simulation::controller::ReplyTo;
use crate::simulation::dice::{Nanos, SECOND};
use crate::simulation::event::{Defect, Event};
use crate::simulation::model::Model;
use crate::simulation::plan::Start;
use crate::simulation::policy_fields::{Deed, GATES, GatePlan, gate_name};
use crate::simulation::receiver::ADDRESS;
use crate::simulation::tools::tool_name;
use crate::simulation::world::{World, note};

/// How long a client waits for an answer.
const PATIENCE: Nanos = 2 * SECOND;

/// How often a submit is repeated: each time may make another task, for the first answer may be all that was lost.
const SUBMITS_MAX: u32 = 4;

#[derive(Default)]
pub(crate) struct Clients {
    requests: Vec<Request>,
    /// Submits and kills that are yet to be made.
    pending: usize,
    unanswered: usize,
}

struct Request {
    ask: Ask,
    body: Vec<u8>,
    attempt: u32,
    /// When this attempt was made.
    asked_at: Nanos,
    done: bool,
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Submit(usize),
    Kill(TaskId),
    /// A request that is accepted or refused, and not checked afterwards.
    Operate,
    /// Something that cannot be refused.
    Set,
    Query(TaskId),
    Await(TaskId),
    /// The submit of a graph, by its plan.
    Graph(usize),
    /// An output, which always has an answer within its time, whatever becomes of its agent.
    Read(TaskId),
}

impl Ask {
    /// Whether a client waits, and asks again, after a refusal: the controller stops or its store is in trouble.
    const fn is_asked_again(self, code: i64, is_shared: bool) -> bool {
        match (self, code) {
            (Self::Submit(_), -1009) | (Self::Graph(_), -1008 | -1009) => true,
            // A controller that may not lead any more does not know whether there is such a task.
            (Self::Kill(_) | Self::Operate | Self::Set | Self::Query(_) | Self::Await(_), -1008) => is_shared,
            _ => false,
        }
    }
}

/// A pending request of a client or an operator.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    Kill(TaskId),
    Hold(TaskId),
    Release(TaskId),
    Look(TaskId),
    Retry(TaskId),
    Deed(Deed),
    /// About a graph.
    Graph(String),
}

impl Clients {
    pub(crate) const fn are_done(&self) -> bool {
        self.pending == 0 && self.unanswered == 0
    }
}

impl World {
    pub(crate) fn begin_submits(&mut self) {
        for plan in 0..self.plan.tasks.len() {
            if let Start::At(at) = self.plan.tasks[plan].start {
                self.submit_after(at, plan, None);
            }
        }
    }

    pub(crate) fn submit_after(&mut self, delay: Nanos, plan: usize, parent: Option<TaskId>) {
        self.clients.pending += 1;
        self.after(delay, Event::Submit { plan, parent });
    }

    /// The tools of some tasks submit children.
    pub(crate) fn submit_children(&mut self, plan: usize, task: TaskId) {
        for number in 0..self.plan.tasks.len() {
            let Start::InRun(parent, delay) = self.plan.tasks[number].start else { continue };
            if parent == plan {
                self.submit_after(delay, number, Some(task));
            }
        }
    }

    pub(crate) fn submit(&mut self, plan: usize, parent: Option<TaskId>) {
        self.clients.pending -= 1;
        let task = &self.plan.tasks[plan];
        let tool = tool_name(task.tool);
        let mut body = format!(
            r#"{{"__TYPE__":"TASK/SUBMIT","__OPERATION__":"{tool}","plan":{plan},"__GIVEN_ID__":"given {plan}""#
        );
        if let Some(parent) = parent {
            body += &format!(r#","__FATHER_ID__":"{parent}""#);
        }
        if let Some(losses_max) = task.losses_max {
            body += &format!(r#","__MAX_LOSSES__":{losses_max}"#);
        }
        if plan.is_multiple_of(2) {
            body += r#","__REQUIRE_TOOL__":true"#;
        }
        if task.is_expected_short {
            body += r#","__EXPECTED_DURATION__":0.001"#;
        }
        if plan % 5 == 3 {
            let wait = [0, 5, 300, 3_000][plan % 4];
            body += &format!(r#","__WAIT__":{wait}"#);
        }
        if task.pushed {
            body += &format!(r#","__ADDRESS__":"{ADDRESS}""#);
        }
        let (request, now) = (self.clients.requests.len(), self.clock(self.server.clock_offset));
        body += &task.policy_fields.fields(now, request);
        body += &self.relation_fields(plan);
        body += "}";
        if task.policy_fields.doubled {
            self.ask(Ask::Submit(plan), body.clone());
        }
        self.ask(Ask::Submit(plan), body);
    }

    pub(crate) fn order_after(&mut self, delay: Nanos, order: Order) {
        self.clients.pending += 1;
        self.after(delay, Event::Order(order));
    }

    pub(crate) fn order(&mut self, order: Order) {
        self.clients.pending -= 1;
        let about = |kind: &str, task: TaskId| format!(r#"{{"__TYPE__":"TASK/{kind}","__TASK_ID__":"{task}"}}"#);
        match order {
            Order::Kill(task) => self.ask(Ask::Kill(task), about("KILL", task)),
            Order::Look(task) => self.ask(Ask::Query(task), about("QUERY", task)),
            Order::Hold(task) => self.ask(Ask::Operate, about("HOLD", task)),
            Order::Release(task) => self.ask(Ask::Operate, about("RELEASE", task)),
            Order::Retry(task) => self.ask(Ask::Operate, about("RETRY", task)),
            Order::Deed(Deed::SetGate(gate, plan)) => {
                let fields = plan.fields(self.clock(self.server.clock_offset));
                let name = gate_name(gate);
                self.ask(Ask::Set, format!(r#"{{"__TYPE__":"GATE/SET","__GATE__":"{name}"{fields}}}"#));
            }
            Order::Deed(Deed::Order(order)) => self.ask(Ask::Operate, order.body()),
            Order::Graph(body) => self.ask(Ask::Operate, body),
            Order::Deed(Deed::Drain(agent, drain)) => {
                let name = self.hosts[agent].name.clone();
                self.drain(name.as_str(), drain);
            }
        }
    }

    fn drain(&mut self, agent: &str, drain: bool) {
        let body =
            format!(r#"{{"__TYPE__":"AGENT/DRAIN","__AGENT_ID__":"{agent}","__DRAIN__":{drain},"__AHEAD__":true}}"#);
        self.ask(Ask::Set, body);
    }

    /// Operators let everything go in the end: gates, agents, and what is held. More than once, for what was ordered before may
    /// arrive later.
    pub(crate) fn clean_up(&mut self) {
        for gate in 0..GATES {
            self.order_after(0, Order::Deed(Deed::SetGate(gate, GatePlan::open())));
        }
        for agent in self.server.drained.clone() {
            self.drain(agent.as_str(), false);
        }
        let held = self.server.disk.values().filter(|record| record.held.is_some() && record.phase() == Phase::Waiting);
        for task in held.map(|record| record.id).collect::<Vec<_>>() {
            self.order_after(0, Order::Release(task));
        }
    }

    /// Ends the waits that a jump of the clock has put too far into the future.
    pub(crate) fn end_what_is_far(&mut self) {
        let soon = self.clock(self.server.clock_offset).wall + Duration::from_secs(30);
        let far = |record: &&TaskRecord| match record.state {
            TaskState::Waiting { not_before } | TaskState::OutOfContact { not_before, .. } => {
                not_before.is_some_and(|at| at > soon)
            }
            _ => false,
        };
        let far: Vec<_> = self.server.disk.values().filter(far).map(|record| record.id).collect();
        for task in far {
            self.order_after(0, Order::Kill(task));
        }
    }

    pub(crate) fn submit_graph(&mut self, plan: usize) {
        self.clients.pending -= 1;
        let body = self.plan.graphs[plan].body(plan);
        self.ask(Ask::Graph(plan), body);
    }

    pub(crate) fn graph_after(&mut self, delay: Nanos, plan: usize) {
        self.clients.pending += 1;
        self.after(delay, Event::Graph { plan });
    }

    /// A request that is accepted or refused.
    pub(crate) fn operate(&mut self, body: String) {
        self.ask(Ask::Operate, body);
    }

    fn ask(&mut self, ask: Ask, body: String) {
        let request = self.clients.requests.len();
        self.clients.requests.push(Request { ask, body: body.into_bytes(), attempt: 0, asked_at: 0, done: false });
        self.clients.unanswered += 1;
        self.try_ask(request);
    }

    fn try_ask(&mut self, request: usize) {
        self.clients.requests[request].asked_at = self.now;
        let attempt = self.clients.requests[request].attempt;
        let delay = self.delay();
        if !self.dice.chance(self.plan.weather.drop) {
            self.after(delay, Event::Asked { request, attempt });
        }
        self.after(PATIENCE, Event::GiveUp { request, attempt });
    }

    pub(crate) fn asked(&mut self, request: usize, attempt: u32) {
        if self.asks_deposed() {
            let body = self.clients.requests[request].body.clone();
            self.deposed_receives(ReplyTo::Client { request, attempt }, body);
        } else if self.server.is_up() {
            let body = self.clients.requests[request].body.clone();
            self.controller_receives(ReplyTo::Client { request, attempt }, body);
        }
    }

    pub(crate) fn give_up(&mut self, request: usize, attempt: u32) {
        let asked = &mut self.clients.requests[request];
        if asked.done || asked.attempt != attempt {
            return;
        }
        asked.attempt += 1;
        if matches!(asked.ask, Ask::Submit(_)) && asked.attempt >= SUBMITS_MAX {
            return self.done(request);
        }
        if self.defect == Some(Defect::NewKeys) {
            let body = &mut self.clients.requests[request].body;
            *body = String::from_utf8_lossy(body).replace("\"key ", "\"other key ").into_bytes();
        }
        note!(self, "{:?} is asked again", self.clients.requests[request].ask);
        self.try_ask(request);
    }

    fn done(&mut self, request: usize) {
        self.clients.requests[request].done = true;
        self.clients.unanswered -= 1;
    }

    pub(crate) fn answered(&mut self, request: usize, attempt: u32, body: &[u8]) {
        let asked = &self.clients.requests[request];
        if asked.done || asked.attempt != attempt {
            return;
        }
        let ask = asked.ask;
        let answer = json::parse(body, &FieldLimits::TRUSTED).expect("a query of one task has a flat answer");
        let text = |name| answer.get(name).and_then(Scalar::as_text);
        let code = answer.get("__CODE__").and_then(Scalar::as_i64).expect("every answer has a code");
        note!(self, "{ask:?} is answered: {code}");
        match (ask, code) {
            (ask, code) if ask.is_asked_again(code, self.plan.is_shared()) => return,
            // Some clients try again, and every tool is everywhere in the end.
            (Ask::Submit(plan), -1006) => {
                let said = text("__ERROR_MSG__").expect("a refusal has a sentence");
                self.check_missing_tool(said, self.clients.requests[request].asked_at);
                if attempt > 0 || self.plan.tasks[plan].policy_fields.doubled || plan % 3 > 0 {
                    return;
                }
                self.model.refused(&self.clients.requests[request].body);
            }
            // The store was in trouble. Some clients leave it at that.
            (Ask::Submit(plan), -1008) => {
                if attempt > 0 || self.plan.tasks[plan].policy_fields.doubled || self.dice.chance(700) {
                    return;
                }
                self.model.refused(&self.clients.requests[request].body);
            }
            // No agent of that name has come yet, or it was never drained.
            (Ask::Set, -1007)
                if text("__ERROR_MSG__").is_some_and(|said| said.starts_with("no agent has the name")) => {}
            // The first task of a job may come after an order about it.
            (Ask::Submit(_), -1011) | (Ask::Operate, 0 | -1004 | -1011) | (Ask::Set, 0) => {}
            // Its time was over before it came.
            (Ask::Submit(plan), -1007) if self.plan.tasks[plan].policy_fields.has_an_end() => {}
            (Ask::Submit(plan), 0) => self.submit_accepted(plan, request, &answer),
            // It is submitted again, and every tool is everywhere in the end.
            (Ask::Graph(_), -1006) => {
                let said = text("__ERROR_MSG__").expect("a refusal has a sentence");
                return self.check_missing_tool(said, self.clients.requests[request].asked_at);
            }
            (Ask::Graph(plan), 0) => {
                let graph = text("__GRAPH_ID__").and_then(|id| id.parse().ok()).expect("an accepted graph has an id");
                self.graph_accepted(plan, graph);
            }
            // The store is in trouble: a crash may take the kill back.
            (Ask::Kill(_), 0) if text("__WARNING__").is_some() => {}
            (Ask::Kill(task), 0) => self.model.kill_confirmed(task, &self.server.disk),
            (Ask::Query(task), 0) => Model::looked_up(task, &answer),
            (Ask::Await(task), 0) => {
                Model::looked_up(task, &answer);
                if text("__STATUS__") != Some("FINISHED") {
                    return;
                }
            }
            // The agent has not answered in time.
            (Ask::Read(_), -1008) => {}
            (Ask::Read(task), 0) => {
                let finished = text("__STATUS__") == Some("FINISHED");
                let end =
                    answer.get("__END__").and_then(Scalar::as_bool).expect("every part says whether it is the last");
                // A controller that stops answers without the agent.
                if finished && !end && !self.server.is_up() {
                    return;
                }
                assert!(end || !finished, "{task} has finished, and its output has no end: {answer:?}");
            }
            (ask, code) => panic!("{ask:?} is refused with {code}: {}", String::from_utf8_lossy(body)),
        }
        self.done(request);
    }

    fn submit_accepted(&mut self, plan: usize, request: usize, answer: &Fields) {
        let text = |name| answer.get(name).and_then(Scalar::as_text);
        let task = text("__TASK_ID__").and_then(|id| id.parse().ok()).expect("an accepted task has an id");
        let duplicate = answer.get("__DUPLICATE__").and_then(Scalar::as_bool).unwrap_or_default();
        let sent = json::parse(&self.clients.requests[request].body, &FieldLimits::TRUSTED).expect("our own");
        let keyed = sent.get("request").and_then(Scalar::as_u64).and_then(|number| usize::try_from(number).ok());
        let is_first = keyed.is_none_or(|number| self.model.keyed(number, task, duplicate));
        // The end of an eager call is told before anything of it is stored, and the next controller may not know it.
        let is_told_early = sent.get("__EAGER__").is_some() && text("__STATUS__") == Some("FINISHED");
        if is_first && !is_told_early {
            self.model.accepted(task, &self.server.disk);
            self.accepted(plan, task);
        }
    }

    /// The next action of a submitter.
    fn accepted(&mut self, plan: usize, task: TaskId) {
        let (kill_after, awaited) = (self.plan.tasks[plan].kill_after, self.plan.tasks[plan].awaited);
        if let Some(delay) = kill_after {
            self.order_after(delay, Order::Kill(task));
        }
        let policy_fields = self.plan.tasks[plan].policy_fields.clone();
        if let Some((delay, length)) = policy_fields.held {
            self.order_after(delay, Order::Hold(task));
            self.order_after(delay + length, Order::Release(task));
        }
        for _ in 0..self.dice.index(4) {
            let delay = self.dice.skewed(0..=4 * SECOND);
            self.order_after(delay, Order::Look(task));
        }
        for delay in policy_fields.retries {
            self.order_after(delay, Order::Retry(task));
        }
        let query = format!(r#"{{"__TYPE__":"TASK/QUERY","__TASK_ID__":"{task}""#);
        if awaited {
            let read = format!(r#"{{"__TYPE__":"TASK/OUTPUT","__TASK_ID__":"{task}","__WAIT__":1500}}"#);
            self.ask(Ask::Read(task), read);
            self.ask(Ask::Await(task), query + r#","__WAIT__":1500}"#);
        } else {
            self.ask(Ask::Query(task), query + "}");
        }
        for child in 0..self.plan.tasks.len() {
            if let Start::AfterSubmit(parent, delay) = self.plan.tasks[child].start
                && parent == plan
            {
                self.submit_after(delay, child, Some(task));
            }
        }
    }
}
