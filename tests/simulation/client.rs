//! Clients with plain REQ sockets: they submit, kill, ask and wait, and ask again when no answer comes.

use llts::protocol::json::{self, FieldLimits};
use llts::types::{Scalar, TaskId};

use crate::controller::ReplyTo;
use crate::dice::{Nanos, SECOND};
use crate::event::Event;
use crate::model::Model;
use crate::plan::Start;
use crate::world::{World, note};

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
    done: bool,
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Submit(usize),
    Kill(TaskId),
    Query(TaskId),
    Await(TaskId),
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
        let mut body = format!(
            r#"{{"__TYPE__":"TASK/SUBMIT","__OPERATION__":"simulated","plan":{plan},"__GIVEN_ID__":"given {plan}""#
        );
        if let Some(parent) = parent {
            body += &format!(r#","__FATHER_ID__":"{parent}""#);
        }
        if let Some(losses_max) = task.losses_max {
            body += &format!(r#","__MAX_LOSSES__":{losses_max}"#);
        }
        if task.pushed {
            body += r#","__ADDRESS__":"tcp://127.0.0.1:5999""#;
        }
        self.ask(Ask::Submit(plan), body + "}");
    }

    pub(crate) fn kill(&mut self, task: TaskId) {
        self.clients.pending -= 1;
        self.ask(Ask::Kill(task), format!(r#"{{"__TYPE__":"TASK/KILL","__TASK_ID__":"{task}"}}"#));
    }

    fn ask(&mut self, ask: Ask, body: String) {
        let request = self.clients.requests.len();
        self.clients.requests.push(Request { ask, body: body.into_bytes(), attempt: 0, done: false });
        self.clients.unanswered += 1;
        self.try_ask(request);
    }

    fn try_ask(&mut self, request: usize) {
        let attempt = self.clients.requests[request].attempt;
        let delay = self.delay();
        if !self.dice.chance(self.plan.weather.drop) {
            self.after(delay, Event::Asked { request, attempt });
        }
        self.after(PATIENCE, Event::GiveUp { request, attempt });
    }

    pub(crate) fn asked(&mut self, request: usize, attempt: u32) {
        if self.server.is_up() {
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
            (Ask::Submit(_), -1009) => return,
            (Ask::Submit(_), -1011) => {}
            (Ask::Submit(plan), 0) => {
                let task = text("__TASK_ID__").and_then(|id| id.parse().ok()).expect("an accepted task has an id");
                self.model.accepted(task, &self.server.disk);
                self.accepted(plan, task);
            }
            (Ask::Kill(task), 0) => self.model.kill_confirmed(task, &self.server.disk),
            (Ask::Query(task), 0) => Model::looked_up(task, &answer),
            (Ask::Await(task), 0) => {
                Model::looked_up(task, &answer);
                if text("__STATUS__") != Some("FINISHED") {
                    return;
                }
            }
            (ask, code) => panic!("{ask:?} is refused with {code}: {}", String::from_utf8_lossy(body)),
        }
        self.done(request);
    }

    /// What a submitter does next.
    fn accepted(&mut self, plan: usize, task: TaskId) {
        let (kill_after, awaited) = (self.plan.tasks[plan].kill_after, self.plan.tasks[plan].awaited);
        if let Some(delay) = kill_after {
            self.clients.pending += 1;
            self.after(delay, Event::Kill { task });
        }
        let query = format!(r#"{{"__TYPE__":"TASK/QUERY","__TASK_ID__":"{task}""#);
        if awaited {
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
