//! The controller's process around the real engine, turn by turn as `shell/controller.rs` does it, and its disk.
//!
//! Each thing that a turn does to the world is an operation, and the process can be killed before any of them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use llts::engine::controller::{Answer, Controller, Effect, Record, Settings, Ticket, reply_is_promise};
use llts::protocol::json::FieldLimits;
use llts::protocol::publish;
use llts::protocol::reply::{self, PageBytes, Reply};
use llts::protocol::request::{self, FromAgent, Message, Rules, Sender};
use llts::protocol::words::kind;
use llts::types::{AddressPolicy, Now, Phase, Session, TaskId, TaskRecord};

use crate::dice::{MILLI, Nanos, SECOND};
use crate::plan::HEARTBEAT;
use crate::world::{Defect, Event, World, note};

#[derive(Default)]
pub(crate) struct Server {
    life: Option<Life>,
    /// What has been committed.
    pub(crate) disk: BTreeMap<TaskId, TaskRecord>,
    wake_at: Option<Nanos>,
    /// Operations until it is killed.
    pub(crate) crash_in: Option<u64>,
    pub(crate) clock_offset: i64,
}

/// What dies with the process.
struct Life {
    engine: Controller,
    inbox: VecDeque<(ReplyTo, Vec<u8>)>,
    routes: BTreeMap<Ticket, (ReplyTo, &'static str)>,
    tickets: u64,
    uncommitted: Vec<Record>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ReplyTo {
    Agent { connection: usize },
    Client { request: usize, attempt: u32 },
}

enum Promise {
    Reply(ReplyTo, &'static str, Reply),
    Push(Box<TaskRecord>),
}

/// The process has been killed.
struct Killed;

fn settings() -> Settings {
    Settings {
        heartbeat_interval: Duration::from_nanos(HEARTBEAT),
        waiting_max: 10_000,
        losses_max: 3,
        // Nothing is forgotten, however the clock jumps: every task is looked at in the end.
        keep: Duration::from_secs(10 * 365 * 86_400),
        keep_bytes_max: usize::MAX,
        page_max: 1000,
        agents_max: 1000,
        parked_max: 1000,
        scans_max: 64,
    }
}

fn rules() -> Rules {
    let allow = vec!["127.0.0.0/8".parse().expect("a network")];
    let addresses = AddressPolicy { allow, own: vec![] };
    Rules { limits: FieldLimits::TRUSTED, addresses, wait_max: Duration::from_secs(3600) }
}

impl Server {
    pub(crate) const fn is_up(&self) -> bool {
        self.life.is_some()
    }

    pub(crate) fn routes(&self) -> usize {
        self.life.as_ref().map_or(0, |life| life.routes.len())
    }
}

impl World {
    fn life(&mut self) -> &mut Life {
        self.server.life.as_mut().expect("the controller runs")
    }

    pub(crate) fn controller_starts(&mut self) {
        if self.server.is_up() {
            return;
        }
        if self.defect == Some(Defect::LostRow) {
            self.server.disk.pop_first();
        }
        if self.defect == Some(Defect::ForgottenKill) {
            self.server.disk.values_mut().for_each(|record| record.kill = None);
        }
        let (seed, now) = (self.dice.number(), self.clock(self.server.clock_offset));
        note!(self, "the controller starts with {} tasks", self.server.disk.len());
        let rows = self.server.disk.values().cloned();
        let engine = Controller::restore(settings(), seed, now, rows);
        engine.sanity_check();
        let (inbox, routes) = (VecDeque::new(), BTreeMap::new());
        self.server.life = Some(Life { engine, inbox, routes, tickets: 0, uncommitted: Vec::new() });
        self.model.controller_started(&self.server.disk);
        self.wake_controller(self.now);
    }

    fn wake_controller(&mut self, at: Nanos) {
        if self.server.wake_at.is_none_or(|wake_at| at < wake_at) {
            self.server.wake_at = Some(at);
            self.at(at, Event::ControllerWakes);
        }
    }

    pub(crate) fn controller_hears(&mut self, connection: usize, body: Vec<u8>) {
        self.controller_receives(ReplyTo::Agent { connection }, body);
    }

    pub(crate) fn controller_receives(&mut self, from: ReplyTo, body: Vec<u8>) {
        self.life().inbox.push_back((from, body));
        let at = self.now + self.wake_delay();
        self.wake_controller(at);
    }

    pub(crate) fn controller_wakes(&mut self) {
        if !self.server.is_up() || self.server.wake_at != Some(self.now) {
            return;
        }
        self.server.wake_at = None;
        let now = self.clock(self.server.clock_offset);
        if self.turn(now).is_err() {
            return self.controller_dies();
        }
        self.life().engine.sanity_check();
        if let Some(at) = self.life().engine.poll_timeout().map(|(at, _)| at) {
            let at = self.nanos_of(at);
            self.wake_controller(at);
        }
    }

    fn turn(&mut self, now: Now) -> Result<(), Killed> {
        let mut promises = Vec::new();
        while let Some((from, body)) = self.life().inbox.pop_front() {
            self.operation()?;
            self.handle(now, from, &body, &mut promises)?;
        }
        self.life().engine.handle_timeout(now);
        self.finish_turn(now, promises)
    }

    fn operation(&mut self) -> Result<(), Killed> {
        match &mut self.server.crash_in {
            Some(0) => Err(Killed),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn handle(&mut self, now: Now, from: ReplyTo, body: &[u8], promises: &mut Vec<Promise>) -> Result<(), Killed> {
        self.trace.bytes(body);
        let (kind, message) = match request::parse(body, &rules()) {
            Ok(parsed) => parsed,
            Err(refused) => panic!("{:?} of a peer of ours: {}", refused.refusal, String::from_utf8_lossy(body)),
        };
        let life = self.life();
        life.tickets += 1;
        let ticket = Ticket(life.tickets);
        note!(self, "controller: {from:?}: {message:?}");
        let answer = match message {
            Message::Client(request) => self.life().engine.handle_request(now, ticket, request),
            Message::Agent(mut sender, mut message) => {
                let stale = self.stale_report(now, &mut sender, &mut message);
                let answer = self.life().engine.handle_agent(now, ticket, &sender, message);
                if let Some(before) = stale {
                    self.check_unchanged(now, &sender, &before);
                }
                answer
            }
        };
        match answer {
            Answer::Now(reply) => self.answer(now, from, kind, reply, promises),
            Answer::Later => {
                self.life().routes.insert(ticket, (from, kind));
                Ok(())
            }
            Answer::NowAndLater(reply) => {
                self.life().routes.insert(ticket, (from, kind::TASK_APPLY));
                self.answer(now, from, kind, reply, promises)
            }
        }
    }

    /// The task of a report that speaks of a round that is over.
    fn stale_report(&mut self, now: Now, sender: &mut Sender, message: &mut FromAgent) -> Option<TaskRecord> {
        let FromAgent::Report(report) = message else { return None };
        let record = self.lookup(now, report.task)?;
        if report.round.is_none_or(|round| round >= record.round) {
            return None;
        }
        if self.defect == Some(Defect::OldRoundAsNew)
            && let Some(run) = record.assignment()
            && let Some(host) = self.hosts.iter().find(|host| host.name == run.agent)
        {
            report.round = Some(record.round);
            *sender = Sender { agent: run.agent.clone(), session: Session(host.session) };
            return None;
        }
        Some(record)
    }

    /// An old round changes nothing; but with its report, the agent may get the next one, as any agent might.
    fn check_unchanged(&mut self, now: Now, sender: &Sender, before: &TaskRecord) {
        let Some(after) = self.lookup(now, before.id) else { panic!("{} is gone", before.id) };
        let handed_out = before.phase() == Phase::Waiting
            && after.phase() == Phase::Dispatched
            && after.round == before.round
            && after.assignment().is_some_and(|run| run.agent == sender.agent);
        assert!(handed_out || after == *before, "an old round has changed its task from {before:?} to {after:?}");
    }

    /// What the engine knows of a task. A query by id changes nothing.
    fn lookup(&mut self, now: Now, task: TaskId) -> Option<TaskRecord> {
        let body = format!("{{\"__TYPE__\":\"TASK/QUERY\",\"__TASK_ID__\":\"{task}\"}}");
        let Ok((_, Message::Client(query))) = request::parse(body.as_bytes(), &rules()) else { panic!("{body}") };
        match self.life().engine.handle_request(now, Ticket(0), query) {
            Answer::Now(Reply::Task { record, .. }) => Some(*record),
            _ => None,
        }
    }

    fn answer(
        &mut self,
        now: Now,
        to: ReplyTo,
        kind: &'static str,
        reply: Reply,
        promises: &mut Vec<Promise>,
    ) -> Result<(), Killed> {
        if reply_is_promise(&reply) && self.defect != Some(Defect::EarlyPromise) {
            promises.push(Promise::Reply(to, kind, reply));
            return Ok(());
        }
        self.send(now, to, kind, &reply)
    }

    fn send(&mut self, now: Now, to: ReplyTo, kind: &str, reply: &Reply) -> Result<(), Killed> {
        self.operation()?;
        let body = reply::encode(kind, reply, PageBytes(1 << 20));
        self.trace.bytes(&body);
        let sent = match to {
            ReplyTo::Agent { connection } => self.send_down(connection, &body),
            ReplyTo::Client { request, attempt } => {
                let delay = self.delay();
                self.after(delay, Event::Answered { request, attempt, body: body.clone() });
                true
            }
        };
        if let Reply::Assigned(record) = reply {
            note!(self, "round {} of {} is sent to {to:?}: {sent}", record.round, record.id);
            if self.defect == Some(Defect::DoubleJob) {
                let other = self.dice.index(self.hosts.len());
                self.agent_hears(other, body);
            }
            if !sent {
                self.life().engine.handle_undelivered(now, record.id, record.round);
            }
        }
        Ok(())
    }

    fn finish_turn(&mut self, now: Now, mut promises: Vec<Promise>) -> Result<(), Killed> {
        while let Some(effect) = self.life().engine.poll_effect() {
            let is_promise = effect.is_promise();
            match effect {
                Effect::Record(record) => self.life().uncommitted.push(record),
                Effect::Publish(message) => {
                    self.operation()?;
                    self.publish(&message);
                }
                Effect::Push(record) if is_promise => promises.push(Promise::Push(record)),
                Effect::Push(record) => self.push(&record)?,
                Effect::Reply(ticket, reply) => {
                    if let Some((to, kind)) = self.life().routes.remove(&ticket) {
                        self.answer(now, to, kind, reply, &mut promises)?;
                    }
                }
            }
        }
        self.commit()?;
        for promise in promises {
            match promise {
                Promise::Reply(to, kind, reply) => self.send(now, to, kind, &reply)?,
                Promise::Push(record) => self.push(&record)?,
            }
        }
        Ok(())
    }

    /// Answers a question that is answered at once, through the bytes of both sides.
    pub(crate) fn ask_directly(&mut self, body: &[u8]) -> Vec<u8> {
        let now = self.clock(self.server.clock_offset);
        let Ok((kind, Message::Client(request))) = request::parse(body, &rules()) else { panic!("{body:?}") };
        match self.life().engine.handle_request(now, Ticket(0), request) {
            Answer::Now(reply) => reply::encode(kind, &reply, PageBytes(1 << 20)),
            answer => panic!("{answer:?}"),
        }
    }

    /// All or nothing: the process may die before or after, not within.
    fn commit(&mut self) -> Result<(), Killed> {
        self.operation()?;
        for record in std::mem::take(&mut self.life().uncommitted) {
            if let Record::Put(record) = &record {
                note!(self, "commit {} round {} {:?}", record.id, record.round, record.phase());
            }
            self.model.committed(&self.server.disk, &record);
            match record {
                Record::Put(record) => self.server.disk.insert(record.id, *record),
                Record::Remove(task) => self.server.disk.remove(&task),
            };
        }
        Ok(())
    }

    fn push(&mut self, record: &TaskRecord) -> Result<(), Killed> {
        self.operation()?;
        self.model.pushed(&publish::encode_status(record));
        if self.defect == Some(Defect::DoublePush) {
            self.model.pushed(&publish::encode_status(record));
        }
        Ok(())
    }

    /// kill -9: what was not committed is lost, also what the engine had not even said yet.
    pub(crate) fn controller_dies(&mut self) {
        let Some(mut life) = self.server.life.take() else { return };
        let mut lost = life.uncommitted;
        while let Some(effect) = life.engine.poll_effect() {
            if let Effect::Record(record) = effect {
                lost.push(record);
            }
        }
        note!(self, "the controller is killed; {} records are lost", lost.len());
        self.model.records_lost(&lost);
        self.controller_is_gone();
    }

    fn controller_is_gone(&mut self) {
        self.server.crash_in = None;
        self.server.wake_at = None;
        self.break_all();
        let delay = self.dice.skewed(10 * MILLI..=4 * SECOND);
        self.after(delay, Event::ControllerStarts);
    }

    /// SIGTERM: answers whoever waits, and ends after a last turn.
    pub(crate) fn controller_stops(&mut self) {
        if !self.server.is_up() {
            return;
        }
        note!(self, "the controller stops");
        let now = self.clock(self.server.clock_offset);
        self.life().engine.handle_stop();
        match self.turn(now) {
            Err(Killed) => self.controller_dies(),
            Ok(()) => {
                self.life().engine.sanity_check();
                self.server.life = None;
                self.controller_is_gone();
            }
        }
    }
}
