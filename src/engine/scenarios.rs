//! Scenarios of the controller, on virtual time, with every invariant checked after every step.
#![cfg(test)]

mod acknowledge;
mod after;
mod archives;
mod calls;
mod contact;
mod deadlines;
mod dispatch;
mod down;
mod explain;
mod family;
mod files;
mod forget;
mod gates;
mod graphs;
mod history;
mod hold;
mod idle;
mod jobs;
mod keys;
mod lease;
mod limits;
mod lists;
mod loss;
mod many;
mod outdated;
mod outputs;
mod peers;
mod progress;
mod query;
mod restart;
mod results;
mod retries;
mod retry;
mod screens;
mod strangers;
mod tags;
mod timeouts;
mod tools;
mod unfit_agents;
mod warm;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::turn::effect::claim_of_reply;
use super::*;
use api::wire::graph::{GraphRow, StoredGraph};
use api::wire::page::{Page, PageBytes};
use api::wire::publish::Published;
use api::wire::reply::Reply;
use api::wire::requests::apply::TASK_APPLY;
use api::wire::requests::drain::AGENT_DRAIN;
use api::wire::requests::explain::TASK_EXPLAIN;
use api::wire::requests::gate::{GATE_QUERY, GATE_SET};
use api::wire::requests::heartbeat::{Directive, Heard, Heartbeat};
use api::wire::requests::hold::{TASK_HOLD, TASK_RELEASE};
use api::wire::requests::list::TASK_DETAILS;
use api::wire::requests::query::TASK_QUERY;
use api::wire::requests::report::Report;
use api::wire::requests::retry::TASK_RETRY;
use api::wire::requests::stats::{AgentCounts, TaskCounts};
use api::wire::requests::submit::TASK_SUBMIT;
use api::wire::requests::{FromAgent, Kind, Message, Request, Sender};
use api::wire::rounds::of_record::finished_round;
use api::wire::rules::{Rules, SubmitLimits};
use api::wire::task::Filter;
use api::wire::{Code, Refusal, reply, requests};
use base::{
    AgentId, Defer, Epoch, ExitCode, Fields, FinishedRound, GateSettings, GateVerdict, GateView, GraphChange, GraphId,
    HeldTool, JobMemo, JobName, JobStatus, Label, Labels, Outcome, Phase, PhaseTimes, Policy, Round, RunResult,
    Session, TaskRecord, TaskState, ToolDigest, ToolName, Wall, json, words,
};

const INTERVAL: Duration = Duration::from_secs(3);
/// Time that an agent needs to end a run.
const BUDGET: Duration = Duration::from_millis(4500);
const START: u64 = 1_480_000_000_000_000;

struct World {
    controller: Controller,
    now: Now,
    tickets: u64,
    replies: Vec<(Ticket, Reply)>,
    pushes: Vec<TaskRecord>,
    /// The ends of tasks that were pushed again.
    pushed_again: Vec<TaskRecord>,
    published: Vec<Published>,
    /// The rounds that went to the history.
    ended: Vec<FinishedRound<'static>>,
    /// The contents of the disk.
    stored: BTreeMap<TaskId, TaskRecord>,
    gates: BTreeMap<Label, GateSettings>,
    drained: BTreeSet<AgentId>,
    memos: BTreeMap<JobName, JobMemo>,
    statuses: Vec<JobStatus>,
    graphs: BTreeMap<GraphId, GraphRow>,
    entries: BTreeMap<(GraphId, u32), String>,
    changes: Vec<GraphChange>,
    /// Changes of graphs for which the pushes have room in each turn.
    room: usize,
    /// The epoch of the next start, and why it is raised.
    epoch: Option<Epoch>,
    raised: Option<String>,
    /// The versions of tools on the disk, with their sizes, the pushed names, and the orders about them.
    archives: BTreeMap<ToolDigest, u64>,
    pushed: Vec<HeldTool>,
    tool_orders: Vec<ToolOrder>,
    settings: Settings,
    /// Whether the clients may send no commands.
    is_stranger: bool,
    /// Records, promises, views and messages without a claim, in their order.
    order: Vec<&'static str>,
    /// Whether the controller always dies before it has stored that a run is being prepared or has begun.
    loses_progress: bool,
}

impl World {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings {
            heartbeat_interval: INTERVAL,
            lost_after: INTERVAL * 2,
            kill_budget: BUDGET,
            waiting_max: 100,
            waiting_bytes_max: 1_000_000_000,
            keep: Duration::from_secs(3600),
            keeps_history: true,
            keep_bytes_max: 1_000_000,
            page_max: 10,
            agents_max: 100,
            parked_max: 10,
            scans_max: 20,
            part_bytes_max: 10,
            job_receivers_max: 4,
            stores_first: false,
            step_grace: Duration::from_secs(5),
            tools: ToolSettings::default(),
            needs_max: 5,
            gates_max: 5,
            list_time_max: Duration::from_millis(50),
            list_tasks_max: 8,
            stay_wait_max: Duration::from_millis(500),
            defer_delay: Duration::from_secs(10),
            retry_delay_max: Duration::from_secs(60),
            push_again_interval: Duration::from_secs(1),
            push_again_interval_max: Duration::from_secs(60),
            push_again_max: Duration::from_secs(600),
        };
        change(&mut settings);
        let now = Now { mono: Mono::from_nanos(0), wall: Wall::from_micros(START) };
        Self {
            controller: Controller::new(settings.clone(), 1),
            stored: BTreeMap::new(),
            settings,
            now,
            tickets: 0,
            replies: Vec::new(),
            pushes: Vec::new(),
            pushed_again: Vec::new(),
            ended: Vec::new(),
            gates: BTreeMap::new(),
            drained: BTreeSet::new(),
            memos: BTreeMap::new(),
            statuses: Vec::new(),
            graphs: BTreeMap::new(),
            entries: BTreeMap::new(),
            changes: Vec::new(),
            room: 100,
            epoch: None,
            raised: None,
            archives: BTreeMap::new(),
            pushed: Vec::new(),
            tool_orders: Vec::new(),
            published: Vec::new(),
            order: Vec::new(),
            is_stranger: false,
            loses_progress: false,
        }
    }

    fn settle(&mut self) {
        let room = self.room;
        self.controller.handle_push_room(|_| room);
        while let Some(effect) = self.controller.poll_effect() {
            self.order.push(match (&effect, effect.claim()) {
                (Effect::Record(_), _) => "record",
                (_, Claim::Promise) => "promise",
                (_, Claim::View) => "view",
                (_, Claim::Nothing) => "other",
            });
            match effect {
                Effect::Record(Record::Put(record))
                    if self.loses_progress && [Phase::Preparing, Phase::Running].contains(&record.phase()) => {}
                Effect::Record(Record::Put(record)) => {
                    self.stored.insert(record.id, *record);
                }
                Effect::Record(Record::Round(round, record)) => {
                    self.ended.extend(finished_round(&record, round).map(FinishedRound::into_owned));
                }
                Effect::Record(Record::Remove(task)) => {
                    self.stored.remove(&task);
                }
                Effect::Record(Record::Gate(name, settings)) => {
                    self.gates.insert(name, settings);
                }
                Effect::Record(Record::Drained(agent, true)) => {
                    self.drained.insert(agent);
                }
                Effect::Record(Record::Drained(agent, false)) => {
                    self.drained.remove(&agent);
                }
                Effect::Record(Record::Job(name, Some(memo))) => {
                    self.memos.insert(name, memo);
                }
                Effect::Record(Record::Job(name, None)) => {
                    self.memos.remove(&name);
                }
                Effect::JobStatus(status) => {
                    self.controller.handle_job_status_left(self.now.mono, &status.view.name);
                    self.statuses.push(*status);
                }
                Effect::Record(Record::Graph(graph, Some(row))) => {
                    self.graphs.insert(graph, *row);
                }
                Effect::Record(Record::Graph(graph, None)) => {
                    self.graphs.remove(&graph);
                    self.entries.retain(|(of, _), _| *of != graph);
                }
                Effect::Record(Record::GraphEntry(graph, number, entry)) => {
                    self.entries.insert((graph, number), entry.into());
                }
                Effect::GraphStatus(change) => {
                    self.controller.handle_graph_status_left(change.address.as_ref());
                    self.changes.push(*change);
                }
                Effect::Reply(ticket, reply) => self.replies.push((ticket, reply)),
                Effect::Publish(message) => self.published.push(message),
                Effect::Push(record) => self.pushes.push(*record),
                Effect::PushAgain(record) => self.pushed_again.push(*record),
                Effect::Tool(order) => self.tool_orders.push(order),
            }
        }
        self.controller.sanity_check();
    }

    /// The controller dies and starts again from the stored records.
    fn restart(&mut self) {
        let stored = Stored {
            epoch: self.epoch,
            raised: self.raised.take(),
            tasks: self.stored.values().cloned().collect(),
            gates: self.gates.clone().into_iter().collect(),
            drained: self.drained.iter().cloned().collect(),
            jobs: self.memos.clone().into_iter().collect(),
            graphs: self.graphs.iter().map(|(graph, row)| self.stored_graph(*graph, row)).collect(),
            tools: self.stored_tools(),
        };
        self.controller = Controller::restore(self.settings.clone(), 2, self.now, stored);
        self.settle();
    }

    /// The archives that the shell would find in its store.
    fn stored_tools(&self) -> StoredTools {
        StoredTools {
            held: self.archives.clone().into_iter().collect(),
            pushed: self.pushed.clone(),
            folder: None,
            store: None,
        }
    }

    fn stored_graph(&self, graph: GraphId, row: &GraphRow) -> StoredGraph {
        let entries: Vec<String> =
            self.entries.range((graph, 0)..=(graph, u32::MAX)).map(|(_, entry)| entry.clone()).collect();
        api::wire::graph::decode(row, &entries, &rules()).unwrap()
    }

    fn pass(&mut self, duration: Duration) {
        let end = Now { mono: self.now.mono + duration, wall: self.now.wall + duration };
        while let Some((at, _)) = self.controller.poll_timeout().filter(|(at, _)| *at <= end.mono) {
            let step = at.since(self.now.mono);
            self.now = Now { mono: self.now.mono + step, wall: self.now.wall + step };
            self.controller.handle_timeout(self.now);
            self.settle();
        }
        self.now = end;
    }

    fn ticket(&mut self) -> Ticket {
        self.ticket_of(0)
    }

    /// A ticket of another connection than the default one.
    fn ticket_of(&mut self, connection: u64) -> Ticket {
        self.tickets += 1;
        Ticket { connection: ConnectionId { door: 0, number: connection }, number: self.tickets }
    }

    fn ask(&mut self, request: Request) -> Reply {
        match self.ask_later(request) {
            (_, Answer::Now(reply)) => reply,
            (ticket, answer) => panic!("{ticket:?}: {answer:?}"),
        }
    }

    fn ask_later(&mut self, request: Request) -> (Ticket, Answer) {
        self.ask_by(0, request)
    }

    fn ask_by(&mut self, connection: u64, request: Request) -> (Ticket, Answer) {
        let ticket = self.ticket_of(connection);
        let answer = self.controller.handle_request(self.now, ticket, request);
        self.settle();
        (ticket, answer)
    }

    /// Asks through the bytes of the wire.
    fn send(&mut self, kind: Kind, fields: &Fields) -> Reply {
        match self.read(kind, fields) {
            Ok(request) => self.ask(request),
            Err(refusal) => Reply::Refused(refusal),
        }
    }

    fn read(&self, kind: Kind, fields: &Fields) -> Result<Request, Refusal> {
        let fields = fields.clone().with(words::TYPE, kind.word);
        let (_, mut message) = requests::parse(&json::to_vec(&fields), &rules()).map_err(|refused| refused.refusal)?;
        if !self.is_stranger {
            message.trust();
            message.reveal();
        }
        let Message::Client(request) = message else { panic!("{message:?}") };
        Ok(request)
    }

    /// The fields of the answer to a request about one task.
    fn told(&mut self, kind: Kind, task: TaskId) -> Fields {
        let reply = self.send(kind, &Fields::new().with(words::TASK_ID, task.to_string()));
        fields_of(kind, &reply)
    }

    fn do_to(&mut self, kind: Kind, task: TaskId) -> Reply {
        self.send(kind, &Fields::new().with(words::TASK_ID, task.to_string()))
    }

    fn why(&mut self, task: TaskId) -> String {
        text(&self.told(TASK_EXPLAIN, task), words::WHY)
    }

    fn log(&mut self, task: TaskId) -> String {
        text(&self.told(TASK_EXPLAIN, task), words::LOG)
    }

    fn set_gate(&mut self, name: &str, fields: Fields) {
        let reply = self.send(GATE_SET, &fields.with(words::GATE, name));
        assert_eq!(reply, Reply::Done);
    }

    fn gate(&mut self, name: &str) -> GateView {
        match self.send(GATE_QUERY, &Fields::new().with(words::GATE, name)) {
            Reply::Gate(view) => view,
            other => panic!("{other:?}"),
        }
    }

    /// The wall clock is set to another time.
    fn jump(&mut self, seconds: i64) {
        let micros = self.now.wall.micros().saturating_add_signed(seconds * 1_000_000);
        self.now.wall = Wall::from_micros(micros);
        self.pass(Duration::ZERO);
    }

    /// The moment so many seconds from here, as on the wire.
    fn moment(&self, seconds: f64) -> f64 {
        self.now.wall.unix_seconds() + seconds
    }

    fn submit(&mut self, fields: &Fields) -> Reply {
        let fields = fields.clone();
        let fields = if fields.get(words::OPERATION).is_some() { fields } else { fields.with(words::OPERATION, "t") };
        self.send(TASK_SUBMIT, &fields)
    }

    fn submitted(&mut self, fields: &Fields) -> TaskId {
        match self.submit(fields) {
            Reply::Submitted { task, .. } => task,
            other => panic!("{other:?}"),
        }
    }

    fn task(&mut self) -> TaskId {
        self.submitted(&Fields::new())
    }

    fn kill(&mut self, task: TaskId) -> Reply {
        self.ask(Request::Kill(task, None))
    }

    fn child(&mut self, parent: TaskId) -> TaskId {
        self.submitted(&Fields::new().with(words::FATHER_ID, parent.to_string()))
    }

    fn say(&mut self, agent: &str, message: FromAgent) -> (Ticket, Answer) {
        self.say_as(agent, 1, message)
    }

    fn say_as(&mut self, agent: &str, session: u64, message: FromAgent) -> (Ticket, Answer) {
        let ticket = self.ticket();
        let sender = Sender::new(AgentId::new(agent).unwrap(), Session(session));
        let answer = self.controller.handle_agent(self.now, ticket, &sender, message);
        self.settle();
        (ticket, answer)
    }

    fn apply(&mut self, agent: &str) -> Option<(TaskId, Round)> {
        match self.say(agent, FromAgent::Apply(None)).1 {
            Answer::Now(Reply::Assigned(record, _)) => Some((record.id, record.round)),
            Answer::Now(Reply::Refused(refusal)) if refusal.code == Code::NoTask => None,
            other => panic!("{other:?}"),
        }
    }

    fn park(&mut self, agent: &str) -> Ticket {
        let (ticket, answer) = self.say(agent, FromAgent::Apply(Some(INTERVAL * 2)));
        assert_eq!(answer, Answer::Later);
        ticket
    }

    fn report(&mut self, agent: &str, task: TaskId, round: Round, phase: Phase) -> Option<Code> {
        let result = (phase >= Phase::Ended).then(|| result(0));
        let report = report_of(task, round, phase, result);
        match self.say(agent, FromAgent::Report(Box::new(report))).1 {
            Answer::Now(Reply::Reported { refusal, .. }) => refusal.map(|refusal| refusal.code),
            other => panic!("{other:?}"),
        }
    }

    /// The run of a task begins.
    fn runs(&mut self, agent: &str, task: TaskId, round: Round) {
        assert_eq!(self.apply(agent), Some((task, round)));
        assert_eq!(self.report(agent, task, round, Phase::Running), None);
    }

    /// The run of a task ends with this result.
    fn ends(&mut self, agent: &str, task: TaskId, round: Round, result: RunResult) -> Option<Code> {
        let report = report_of(task, round, Phase::Finished, Some(result));
        match self.say(agent, FromAgent::Report(Box::new(report))).1 {
            Answer::Now(Reply::Reported { refusal, .. }) => refusal.map(|refusal| refusal.code),
            other => panic!("{other:?}"),
        }
    }

    /// An agent takes this round of a task, and run.sh ends with this code.
    fn exits(&mut self, agent: &str, task: TaskId, round: u32, exit_code: i32) {
        self.runs(agent, task, Round(round));
        assert_eq!(self.ends(agent, task, Round(round), result(exit_code)), None);
    }

    /// An agent reports its tags.
    fn tagged(&mut self, agent: &str, tags: &str) {
        let tags = Labels::parse(tags).unwrap();
        let heartbeat = Heartbeat { tags, ..Heartbeat::default() };
        let _ = self.say(agent, FromAgent::Heartbeat(heartbeat));
    }

    /// Lets time pass while these agents stay in contact, each with its run.
    fn pass_with(&mut self, duration: Duration, agents: &[(&str, Option<(TaskId, Round)>)]) {
        let mut left = duration;
        while !left.is_zero() {
            let step = left.min(INTERVAL);
            self.pass(step);
            left -= step;
            for (agent, run) in agents {
                self.beat(agent, *run);
            }
        }
    }

    fn beat(&mut self, agent: &str, run: Option<(TaskId, Round)>) -> Option<Directive> {
        let heartbeat = Heartbeat { busy: run.is_some(), run, ..Heartbeat::default() };
        match self.say(agent, FromAgent::Heartbeat(heartbeat)).1 {
            Answer::Now(Reply::Heartbeat(Heard { wanted, .. })) => wanted.map(|(.., wanted)| wanted),
            other => panic!("{other:?}"),
        }
    }

    /// The answer to a simple agent that reports being busy without naming its task.
    fn busy(&mut self, agent: &str) -> Option<(TaskId, Round, Directive)> {
        let heartbeat = Heartbeat { busy: true, ..Heartbeat::default() };
        match self.say(agent, FromAgent::Heartbeat(heartbeat)).1 {
            Answer::Now(Reply::Heartbeat(Heard { wanted, .. })) => wanted,
            other => panic!("{other:?}"),
        }
    }

    /// Whether an agent with a free slot is told in answer to a heartbeat that it need not ask for a task.
    fn is_parked(&mut self, agent: &str) -> bool {
        let heartbeat = Heartbeat::default();
        match self.say(agent, FromAgent::Heartbeat(heartbeat)).1 {
            Answer::Now(Reply::Heartbeat(Heard { parked, .. })) => parked,
            other => panic!("{other:?}"),
        }
    }

    fn record(&mut self, task: TaskId) -> TaskRecord {
        match self.ask(Request::Query(filter(words::TASK_ID, &task.to_string()), None)) {
            Reply::Task { record, .. } => *record,
            other => panic!("{other:?}"),
        }
    }

    fn phase(&mut self, task: TaskId) -> Phase {
        self.record(task).phase()
    }

    fn outcome(&mut self, task: TaskId) -> Outcome {
        match self.record(task).state {
            TaskState::Finished { outcome, .. } => outcome,
            other => panic!("{other:?}"),
        }
    }

    fn counts(&mut self) -> AgentCounts {
        match self.ask(Request::AgentQuery) {
            Reply::AgentCounts(counts) => counts,
            other => panic!("{other:?}"),
        }
    }
}

fn rules() -> Rules {
    Rules {
        limits: base::json::FieldLimits::TRUSTED,
        addresses: base::AddressPolicy::everything(),
        wait_max: Duration::from_secs(3600),
        apply_wait_max: Duration::from_secs(3600),
        defaults: Policy { losses_max: 3, defers_max: 2, ..Policy::default() }.into(),
        submits: SubmitLimits { tasks_max: 10, terms_max: 10, ..SubmitLimits::DEFAULT },
        graphs: base::GraphLimits::DEFAULT,
        sources: base::AllowedSources::default(),
    }
}

fn filter(name: &str, value: &str) -> Filter {
    Filter::new(&Fields::new().with(name, value))
}

/// An agent's report of a run, without times.
fn report_of(task: TaskId, round: Round, phase: Phase, result: Option<RunResult>) -> Report {
    let times = PhaseTimes::default();
    Report {
        task,
        round: Some(round),
        phase,
        times,
        ran: None,
        result,
        provided: None,
        progress: None,
        let_go: None,
        wait: None,
    }
}

fn result(exit_code: i32) -> RunResult {
    RunResult { report_tail: "report".to_owned(), ..RunResult::of(ExitCode(exit_code), String::new()) }
}

/// The fields of a reply on the wire.
fn fields_of(kind: Kind, reply: &Reply) -> Fields {
    let bytes = reply::encode(kind.word, reply, PageBytes(1 << 20));
    json::parse(&bytes, &json::FieldLimits::TRUSTED).unwrap()
}

fn text(fields: &Fields, name: &str) -> String {
    fields.get(name).map(ToString::to_string).unwrap_or_default()
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn refused(reply: &Reply) -> Code {
    match reply {
        Reply::Refused(refusal) => refusal.code,
        other => panic!("{other:?}"),
    }
}
