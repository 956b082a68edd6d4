//! One turn of the controller's process: messages into the sequencer, and its departures into the world.
//!
//! Each departure is an operation, and the process can be killed before any of them. A commit takes its time, in which turns go
//! on, and the disk may be slow, full or broken.

use api::wire::page::PageBytes;
use api::wire::reply::Reply;
use api::wire::requests::Message;
use api::wire::rounds::of_record::ended_rounds;
use api::wire::{publish, reply, requests};
use base::{Now, TaskRecord};
use engine::{Departure, Record, Route};

use crate::simulation::controller::{Commit, Killed, Outcome, ReplyTo, rules};
use crate::simulation::dice::{MICRO, MILLI, Nanos, SECOND};
use crate::simulation::event::{Defect, Event};
use crate::simulation::model::Model;
use crate::simulation::tools::has_its_tool;
use crate::simulation::world::{World, note};

impl World {
    pub(crate) fn turn(&mut self, now: Now) -> Result<(), Killed> {
        while let Some((from, body)) = self.life().inbox.pop_front() {
            self.operation()?;
            self.handle(now, from, &body);
        }
        while let Some(connection) = self.poll_closed() {
            let closed = ReplyTo::Agent { connection }.connection();
            self.life().sequencer.handle_disconnected(closed);
        }
        while let Some((task, seq)) = self.life().confirmations.pop_front() {
            self.operation()?;
            self.life().sequencer.controller().handle_acknowledgement(
                now,
                task,
                seq,
                &crate::simulation::receiver::address(),
            );
        }
        match self.life().outcome.take() {
            None => {}
            Some(Outcome::Stored) => {
                let recovered = self.life().sequencer.handle_stored(now, true);
                if recovered {
                    self.life().in_trouble = false;
                    note!(self, "the store can be written again");
                }
            }
            Some(Outcome::Doubtful(records)) => {
                let _ = self.life().sequencer.handle_trouble(now, "no answer", records, true);
            }
            Some(Outcome::Full(records)) => {
                let is_new = self.life().sequencer.handle_trouble(now, "no space is left", records, false);
                if is_new {
                    self.life().in_trouble = true;
                    note!(self, "the store cannot be written");
                }
            }
        }
        self.life().sequencer.controller().handle_timeout(now);
        self.give_push_room();
        let turned = self.depart(now);
        for line in self.life().sequencer.controller().take_log() {
            note!(self, "LOG {}", line.text);
        }
        turned
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

    fn handle(&mut self, now: Now, from: ReplyTo, body: &[u8]) {
        self.trace.bytes(body);
        let (kind, mut message) = match requests::parse(body, &rules()) {
            Ok(parsed) => parsed,
            Err(refused) => panic!("{:?} of a peer of ours: {}", refused.refusal, String::from_utf8_lossy(body)),
        };
        note!(self, "controller: {from:?}: {message:?}");
        let (mut stale, mut missing) = (None, None);
        if let Message::Agent(sender, message) = &mut message {
            // As the door of an agent of the owner says.
            sender.may_have_commands = true;
            self.model.heard.insert(sender.agent.clone());
            stale = self.stale_report(now, sender, message);
            missing = self.missing_in(now, message);
        }
        self.life().sequencer.handle_message(now, from.connection(), Route { to: from, kind }, message);
        if let Some(task) = missing {
            self.check_tool(now, task);
        }
        if let Some(before) = stale {
            self.check_unchanged(now, &before);
        }
    }

    fn depart(&mut self, now: Now) -> Result<(), Killed> {
        while let Some(departure) = self.poll_departure(now) {
            self.operation()?;
            match departure {
                Departure::Reply { route, reply, .. } => self.send(now, &route, &reply),
                Departure::Publish(message) => self.publish(&message),
                // Sent messages are already on their way.
                Departure::Flush => {}
                Departure::Commit(records) => self.begin_commit(records),
                Departure::Push { record, .. } => self.push(&record),
                Departure::JobStatus(status) => self.model.rules.relations.published(self.now, &status),
                Departure::GraphStatus(change) => self.graph_changed(&change),
                Departure::Tool(order) => unreachable!("no archive has changed: {order:?}"),
                Departure::PushAgain(record) => {
                    Model::pushed_again(&record);
                    self.push_travels(&record);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn poll_departure(&mut self, now: Now) -> Option<Departure<ReplyTo>> {
        let (clock, at) = (self.clock(self.server.clock_offset), self.now);
        let stores_first = self.plan.is_shared();
        let Self { server, model, hosts, .. } = self;
        let life = server.life.as_mut().expect("the controller runs");
        if server.is_deposed {
            // Nothing of it counts, but what it tells others.
            return life.sequencer.poll_departure_with(now, |record| life.told.note(record, stores_first));
        }
        model.rules.ahead(life.sequencer.controller().ahead().collect());
        life.sequencer.poll_departure_with(now, |record| {
            model.rules.decided(clock, record, has_its_tool(hosts, at, record));
            model.check_timeout(at, record);
            life.told.note(record, stores_first);
        })
    }

    fn send(&mut self, now: Now, route: &Route<ReplyTo>, reply: &Reply) {
        if let Reply::Task { record, .. } = reply
            // The state shown then may be lost with the controller.
            && !self.life().in_trouble
            && !self.server.is_deposed
        {
            self.model.shown(record);
        }
        let body = reply::encode(route.kind, reply, PageBytes(1 << 20));
        self.trace.bytes(&body);
        let sent = match route.to {
            ReplyTo::Agent { connection } => self.send_down(connection, &body),
            ReplyTo::Client { request, attempt } => {
                let delay = self.delay();
                self.after(delay, Event::Answered { request, attempt, body: body.clone() });
                true
            }
        };
        if let Reply::Assigned(record, _) = reply {
            note!(self, "round {} of {} is sent to {:?}: {sent}", record.round, record.id, route.to);
            if self.defect == Some(Defect::DoubleJob) {
                let other = self.dice.index(self.hosts.len());
                self.agent_hears(other, body);
            }
            if !sent {
                self.model.never_sent(record.id, record.round);
            }
        }
        if let Reply::AssignedList(records, terms) = reply {
            let ids: Vec<_> = records.iter().map(|record| record.id).collect();
            note!(self, "list {} of {ids:?} is sent to {:?}: {sent}", terms.number, route.to);
            if !sent {
                records.iter().for_each(|record| self.model.never_sent(record.id, record.round));
            }
        }
        if !sent {
            self.life().sequencer.handle_undelivered(now, reply);
        }
    }

    fn begin_commit(&mut self, records: Vec<Record>) {
        if self.server.is_deposed {
            return self.refuse_commit(records);
        }
        let life = self.life();
        let commit = Commit { records, told: std::mem::take(&mut life.told) };
        life.commits.push_back(commit);
        let number = life.number;
        let delay = self.commit_time();
        self.after(delay, Event::Committed { life: number });
        if self.defect == Some(Defect::LyingStore) {
            let now = self.controller_now();
            self.life().sequencer.handle_stored(now, true);
        }
    }

    /// A disk is fast, or busy with something else.
    fn commit_time(&mut self) -> Nanos {
        if self.now < self.server.slow_until {
            self.dice.within(50 * MILLI..=3 * SECOND)
        } else if self.dice.chance(50) {
            self.dice.within(MILLI..=100 * MILLI)
        } else {
            self.dice.skewed(50 * MICRO..=2 * MILLI)
        }
    }

    /// The store has done its work, if it was not for a controller that has died.
    pub(crate) fn store_commits(&mut self, life: u64) {
        if !self.server.is_up() || self.life().number != life {
            return;
        }
        if self.server.breaks {
            note!(self, "the disk breaks");
            return self.controller_dies();
        }
        self.end_commit();
        let at = self.now + self.wake_delay();
        self.wake_controller(at);
    }

    /// A commit ends, if one is under way.
    pub(crate) fn end_commit(&mut self) -> bool {
        let is_full = self.now < self.server.full_until;
        let life = self.life();
        let Some(Commit { records, told }) = life.commits.pop_front() else { return false };
        let outcome = if is_full {
            life.told.extend(told);
            Outcome::Full(records)
        } else {
            self.commit(&records);
            Outcome::Stored
        };
        if self.defect != Some(Defect::LyingStore) {
            self.life().outcome = Some(outcome);
        }
        true
    }

    /// All or nothing.
    pub(crate) fn commit(&mut self, records: &[Record]) {
        for record in records {
            if let Record::Put(record) = &record {
                note!(self, "commit {} round {} {:?}", record.id, record.round, record.phase());
            }
            self.model.committed(&self.server.disk, record);
            self.model.rules.committed(record);
            let server = &mut self.server;
            match record {
                Record::Put(record) => drop(server.disk.insert(record.id, (**record).clone())),
                Record::Round(round, record) => {
                    let is_new = server.history.insert((record.id, *round));
                    assert!(is_new, "round {round} of task {} goes to the history twice", record.id);
                }
                Record::Remove(task) => drop(server.disk.remove(task)),
                Record::Gate(name, settings) => drop(server.gates.insert(name.clone(), settings.clone())),
                Record::Drained(agent, true) => drop(server.drained.insert(agent.clone())),
                Record::Drained(agent, false) => drop(server.drained.remove(agent)),
                Record::Job(name, Some(memo)) => drop(server.memos.insert(name.clone(), *memo)),
                Record::Job(name, None) => drop(server.memos.remove(name)),
                Record::Graph(graph, Some(row)) => drop(server.graphs.insert(*graph, (**row).clone())),
                Record::Graph(graph, None) => {
                    server.graphs.remove(graph);
                    server.entries.retain(|(of, _), _| of != graph);
                }
                Record::GraphEntry(graph, number, entry) => {
                    server.entries.insert((*graph, *number), entry.to_string());
                }
            }
        }
        for record in records {
            let Record::Put(record) = record else { continue };
            for (round, _) in ended_rounds(record) {
                let is_kept = self.server.history.contains(&(record.id, round));
                assert!(is_kept, "the history lacks round {round} of task {}", record.id);
            }
        }
    }

    fn push(&mut self, record: &TaskRecord) {
        self.model.pushed(&publish::encode_status(record));
        self.model.check_confirmed(record);
        self.push_travels(record);
        if self.defect == Some(Defect::DoublePush) {
            self.model.pushed(&publish::encode_status(record));
        }
    }
}
