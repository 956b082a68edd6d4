//! One turn of the controller's process: messages through the engine, effects, what goes to the store, promises.
//!
//! The order is that of `shell/controller.rs`. Each thing that a turn does to the world is an operation, and the process can
//! be killed before any of them. A commit takes its time, in which turns go on.

use llts::engine::controller::{Answer, Claim, Effect, Promises, Record, Ticket, UNHURRIED, claim_of_reply};
use llts::protocol::publish;
use llts::protocol::reply::{self, PageBytes, Reply};
use llts::protocol::request::{self, Message};
use llts::protocol::words::kind;
use llts::types::{Now, TaskRecord};

use crate::controller::{Commit, Killed, ReplyTo, rules};
use crate::dice::{MICRO, MILLI, Nanos};
use crate::event::{Defect, Event};
use crate::model::Model;
use crate::world::{World, note};

pub(crate) enum Promise {
    Reply(ReplyTo, &'static str, Reply),
    Push(Box<TaskRecord>),
    PushAgain(Box<TaskRecord>),
}

impl World {
    pub(crate) fn turn(&mut self, now: Now) -> Result<(), Killed> {
        let mut promises = Promises::default();
        while let Some((from, body)) = self.life().inbox.pop_front() {
            self.operation()?;
            self.handle(now, from, &body, &mut promises)?;
        }
        while let Some(connection) = self.poll_closed() {
            let closed = ReplyTo::Agent { connection }.connection();
            for ticket in self.life().engine.handle_disconnected(closed) {
                self.life().routes.remove(&ticket);
            }
        }
        while let Some((task, seq)) = self.life().confirmations.pop_front() {
            self.operation()?;
            self.life().engine.handle_acknowledgement(now, task, seq, &crate::receiver::address());
        }
        if self.life().has_committed {
            self.life().has_committed = false;
            let kept = self.life().ledger.handle_stored();
            self.life().engine.handle_committed(kept.newest);
            self.keep(now, kept.promises)?;
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

    fn handle(&mut self, now: Now, from: ReplyTo, body: &[u8], promises: &mut Promises<Promise>) -> Result<(), Killed> {
        self.trace.bytes(body);
        let (kind, message) = match request::parse(body, &rules()) {
            Ok(parsed) => parsed,
            Err(refused) => panic!("{:?} of a peer of ours: {}", refused.refusal, String::from_utf8_lossy(body)),
        };
        let life = self.life();
        life.tickets += 1;
        let ticket = Ticket { connection: from.connection(), number: life.tickets };
        note!(self, "controller: {from:?}: {message:?}");
        let answer = match message {
            Message::Client(request) => self.life().engine.handle_request(now, ticket, request),
            Message::Agent(mut sender, mut message) => {
                let stale = self.stale_report(now, &mut sender, &mut message);
                let missing = self.missing_in(now, &message);
                let answer = self.life().engine.handle_agent(now, ticket, &sender, message);
                if let Some(task) = missing {
                    self.check_tool(now, task);
                }
                if let Some(before) = stale {
                    self.check_unchanged(now, &before);
                }
                answer
            }
        };
        match answer {
            Answer::Now(reply) => self.answer(now, claim_of_reply(&reply), (from, kind), reply, promises),
            Answer::Later => {
                self.life().routes.insert(ticket, (from, kind));
                Ok(())
            }
            Answer::NowAndLater(reply) => {
                self.life().routes.insert(ticket, (from, kind::TASK_APPLY));
                promises.add(now.mono + UNHURRIED, Promise::Reply(from, kind, reply));
                Ok(())
            }
        }
    }

    fn answer(
        &mut self,
        now: Now,
        claim: Claim,
        (to, kind): (ReplyTo, &'static str),
        reply: Reply,
        promises: &mut Promises<Promise>,
    ) -> Result<(), Killed> {
        let early = match self.defect {
            Some(Defect::EarlyPromise) => true,
            Some(Defect::EarlyDispatch) => matches!(reply, Reply::Assigned(_)),
            _ => false,
        };
        if claim.waits(false) && !early {
            promises.add(now.mono, Promise::Reply(to, kind, reply));
            return Ok(());
        }
        self.send(now, to, kind, &reply)
    }

    fn send(&mut self, now: Now, to: ReplyTo, kind: &str, reply: &Reply) -> Result<(), Killed> {
        self.operation()?;
        if let Reply::Task { record, .. } = reply {
            self.model.shown(record);
        }
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
                self.model.never_sent(record.id, record.round);
                self.life().engine.handle_undelivered(now, record.id, record.round);
            }
        }
        Ok(())
    }

    fn finish_turn(&mut self, now: Now, mut promises: Promises<Promise>) -> Result<(), Killed> {
        loop {
            let records = self.apply_effects(now, &mut promises)?;
            if records.is_empty() && promises.is_empty() {
                break;
            }
            let promises = self.life().ledger.handle_turn(now.mono, records, std::mem::take(&mut promises));
            self.keep(now, promises)?;
            // Once more: a promise that met no peer is news for the engine.
        }
        if let Some(records) = self.life().ledger.poll_commit(now.mono) {
            let life = self.life();
            life.commit = Some(Commit { records, told: std::mem::take(&mut life.told) });
            let number = life.number;
            let delay = self.commit_time();
            self.after(delay, Event::Committed { life: number });
        }
        Ok(())
    }

    /// A disk is fast, or busy with something else.
    fn commit_time(&mut self) -> Nanos {
        if self.dice.chance(50) {
            self.dice.within(MILLI..=100 * MILLI)
        } else {
            self.dice.skewed(50 * MICRO..=2 * MILLI)
        }
    }

    fn apply_effects(&mut self, now: Now, promises: &mut Promises<Promise>) -> Result<Vec<Record>, Killed> {
        let mut records = Vec::new();
        while let Some(effect) = self.life().engine.poll_effect() {
            let claim = effect.claim();
            match effect {
                Effect::Record(record) => {
                    let now = self.clock(self.server.clock_offset);
                    let has_its_tool = self.has_its_tool(&record);
                    self.model.rules.decided(now, &record, has_its_tool);
                    self.model.check_timeout(self.now, &record);
                    self.life().told.note(&record);
                    records.push(record);
                }
                Effect::Publish(message) => {
                    self.operation()?;
                    self.publish(&message);
                }
                Effect::Push(record) if claim.waits(false) => {
                    promises.add(now.mono + record.slack(), Promise::Push(record));
                }
                Effect::Push(record) => self.push(&record)?,
                Effect::PushAgain(record) => promises.add(now.mono, Promise::PushAgain(record)),
                Effect::Reply(ticket, reply) => {
                    if let Some(route) = self.life().routes.remove(&ticket) {
                        self.answer(now, claim, route, reply, promises)?;
                    }
                }
            }
        }
        Ok(records)
    }

    fn keep(&mut self, now: Now, promises: Vec<Promise>) -> Result<(), Killed> {
        for promise in promises {
            match promise {
                Promise::Reply(to, kind, reply) => self.send(now, to, kind, &reply)?,
                Promise::Push(record) => self.push(&record)?,
                Promise::PushAgain(record) => {
                    self.operation()?;
                    Model::pushed_again(&record);
                    self.push_travels(&record);
                }
            }
        }
        Ok(())
    }

    /// The store has done its work, if it was not for a controller that has died.
    pub(crate) fn store_commits(&mut self, life: u64) {
        if !self.server.is_up() || self.life().number != life {
            return;
        }
        let Some(commit) = self.life().commit.take() else { unreachable!("nothing was to be committed") };
        self.commit(commit.records);
        self.life().has_committed = true;
        let at = self.now + self.wake_delay();
        self.wake_controller(at);
    }

    /// All or nothing.
    pub(crate) fn commit(&mut self, records: Vec<Record>) {
        for record in records {
            if let Record::Put(record) = &record {
                note!(self, "commit {} round {} {:?}", record.id, record.round, record.phase());
            }
            self.model.committed(&self.server.disk, &record);
            self.model.rules.committed(&record);
            let server = &mut self.server;
            match record {
                Record::Put(record) => drop(server.disk.insert(record.id, *record)),
                Record::Remove(task) => drop(server.disk.remove(&task)),
                Record::Gate(name, settings) => drop(server.gates.insert(name, settings)),
                Record::Drained(agent, true) => drop(server.drained.insert(agent)),
                Record::Drained(agent, false) => drop(server.drained.remove(&agent)),
            }
        }
    }

    fn push(&mut self, record: &TaskRecord) -> Result<(), Killed> {
        self.operation()?;
        self.model.pushed(&publish::encode_status(record));
        self.model.check_confirmed(record);
        self.push_travels(record);
        if self.defect == Some(Defect::DoublePush) {
            self.model.pushed(&publish::encode_status(record));
        }
        Ok(())
    }
}
