//! When messages leave the controller: at once, after the commit that they depend on, or a little later for batching.
//!
//! In a turn, messages, deadlines and the result of a commit come in; then departures go out until there are none left. The
//! shell owns the sockets and the disk and decides nothing.
//!
//! | departure | when |
//! |---|---|
//! | a reply or a push that claims nothing ([`Claim`]) | in the turn in which it was decided |
//! | one that shows the state of tasks | after the commit of its turn; at once while the store is in trouble |
//! | one that promises something | after the commit of its turn |
//! | the records of the turns since the last commit | when the store is free and the first message that depends on them is due |
//!
//! In a turn, agents come first, because they are idle until they get their tasks; then the disk; then the addresses of pushes. When
//! the store gets into trouble, submits that it has not stored are refused, and kills, pauses and gates act at once ([`trouble`]); every
//! other promise waits until the store recovers.

mod trouble;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::commit_queue::{Batch, CommitQueue};
use super::departure::{Departure, Route};
use super::effect::{Answer, BATCH_DELAY_MAX, Claim, ConnectionId, Effect, Record, Ticket, Timer, claim_of_reply};
use crate::Controller;
use crate::graph::Graph;
use api::wire::Refusal;
use api::wire::reply::{Reply, no_task};
use api::wire::requests::Message;
use api::wire::requests::apply::TASK_APPLY;
use api::wire::requests::graph::GraphSubmit;
use base::{GraphChange, JobStatus, Mono, Now, TaskRecord, Wall};

/// A message that depends on a commit.
#[derive(Debug)]
enum Deferred<R> {
    Reply { route: Route<R>, claim: Claim, reply: Reply, delay_max: Duration },
    Push { record: Box<TaskRecord>, by: Mono },
    PushAgain(Box<TaskRecord>),
    JobStatus(Box<JobStatus>),
    GraphStatus(Box<GraphChange>),
}

/// A [`Controller`] with its commits; `R` is the doors' name for the route of a reply. See the [module](self).
#[derive(Debug)]
pub struct Sequencer<R> {
    controller: Controller,
    commits: CommitQueue<Deferred<R>>,
    /// The routes of the requests that have not been answered yet.
    routes: BTreeMap<Ticket, Route<R>>,
    last_ticket: u64,
    /// The messages of this turn that wait for its commit.
    batch: Batch<Deferred<R>>,
    departures: VecDeque<Departure<R>>,
    /// Number of changes of tasks that have left.
    changes: u64,
    /// Whether a reply or a publication has left since the last flush.
    is_unflushed: bool,
    /// Since when the store cannot be written, and why.
    trouble: Option<(Wall, String)>,
}

impl<R: Clone> Sequencer<R> {
    /// A sequencer for a controller that has been started and has not had a turn.
    #[must_use]
    pub fn new(controller: Controller) -> Self {
        Self {
            controller,
            commits: CommitQueue::default(),
            routes: BTreeMap::new(),
            last_ticket: 0,
            batch: Batch::default(),
            departures: VecDeque::new(),
            changes: 0,
            is_unflushed: false,
            trouble: None,
        }
    }

    /// Handles a request that arrived on this connection.
    pub fn handle_message(&mut self, now: Now, connection: ConnectionId, route: Route<R>, message: Message) {
        let ticket = self.ticket(connection);
        let answer = match message {
            Message::Client(request) => self.controller.handle_request(now, ticket, request),
            Message::Agent(sender, message) => self.controller.handle_agent(now, ticket, &sender, message),
        };
        self.route(now, ticket, route, answer);
    }

    fn ticket(&mut self, connection: ConnectionId) -> Ticket {
        self.last_ticket += 1;
        Ticket { connection, number: self.last_ticket }
    }

    /// Sends the answer to a request, or keeps its route until there is one.
    fn route(&mut self, now: Now, ticket: Ticket, route: Route<R>, answer: Answer) {
        match answer {
            Answer::Now(reply) => {
                let reply = self.without_doubt(reply);
                let by = now.mono + self.controller.list_confirmation_delay(&reply);
                let claim = Self::claim(&route, &reply, claim_of_reply(&reply));
                self.answer(by, route, claim, reply);
            }
            Answer::Later => drop(self.routes.insert(ticket, route)),
            Answer::NowAndLater(reply) => {
                // The agent continues with the next task; it can learn later that the end of the last one is stored.
                let (delay_max, claim) = (BATCH_DELAY_MAX, Claim::Promise);
                let due = now.mono + delay_max.max(self.controller.confirmation_delay(&reply));
                let confirmation = Deferred::Reply { route: route.clone(), claim, reply, delay_max };
                self.batch.add(due, confirmation);
                self.routes.insert(ticket, Route { kind: TASK_APPLY.word, ..route });
            }
        }
    }

    /// Handles the submit of a graph whose steps have been connected.
    pub fn handle_planned(
        &mut self,
        now: Now,
        connection: ConnectionId,
        route: Route<R>,
        submit: GraphSubmit,
        plan: Arc<Graph>,
    ) {
        let ticket = self.ticket(connection);
        let answer = self.controller.handle_planned(now, ticket, submit, plan);
        self.route(now, ticket, route, answer);
    }

    /// Answers a request that could not be parsed.
    pub fn handle_refused(&mut self, now: Now, route: Route<R>, refusal: Refusal) {
        let reply = refusal.into();
        self.answer(now.mono, route, claim_of_reply(&reply), reply);
    }

    /// A connection is gone: answers owed to it are dropped.
    pub fn handle_disconnected(&mut self, connection: ConnectionId) {
        for ticket in self.controller.handle_disconnected(connection) {
            self.routes.remove(&ticket);
        }
    }

    /// A reply found no peer. A task that it handed out waits again; an output that it wanted is answered without the agent.
    pub fn handle_undelivered(&mut self, now: Now, reply: &Reply) {
        if let Reply::Assigned(record, _) = reply {
            self.controller.handle_undelivered(now, record.id, record.round);
        }
        if let Reply::AssignedList(records, _) = reply
            && let Some(first) = records.first()
        {
            self.controller.handle_undelivered(now, first.id, first.round);
        }
        if let Reply::Wanted(wanted) = reply {
            self.controller.handle_unasked(wanted.ask);
        }
    }

    /// Refuses submits from here on, answers every parked request, and delays no further commit.
    pub fn handle_stop(&mut self) {
        self.controller.handle_stop();
        self.commits.close();
    }

    /// The next deadline and its reason: a timer of the controller, or `None` for a commit.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Mono, Option<&Timer>)> {
        let timer = self.controller.poll_timeout().map(|(at, timer)| (at, Some(timer)));
        let commit = self.commits.poll_timeout().map(|at| (at, None));
        timer.into_iter().chain(commit).min_by_key(|(at, _)| *at)
    }

    /// The next departure. The turn ends when there is none.
    pub fn poll_departure(&mut self, now: Now) -> Option<Departure<R>> {
        self.poll_departure_with(now, |_| {})
    }

    /// Like [`Self::poll_departure`], and shows each record when it is decided: long before its commit, and even if a later one
    /// replaces it.
    pub fn poll_departure_with(&mut self, now: Now, mut decided: impl FnMut(&Record)) -> Option<Departure<R>> {
        loop {
            if let Some(departure) = self.departures.pop_front() {
                if let Departure::JobStatus(status) = &departure {
                    self.controller.handle_job_status_left(now.mono, &status.view.name);
                } else if let Departure::GraphStatus(change) = &departure {
                    self.controller.handle_graph_status_left(change.address.as_ref());
                }
                return Some(departure);
            }
            // Repeat after the last departure, because a reply without a peer is news for the controller.
            self.advance(now, &mut decided);
            if self.departures.is_empty() {
                return None;
            }
        }
    }

    /// Whether the store has everything that it can take.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.commits.is_at_rest()
    }

    /// Checks every invariant of the controller and of the commits.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn sanity_check(&self) {
        self.controller.sanity_check();
        self.commits.sanity_check();
    }

    /// The controller itself, for queries, and for events that no connection waits for.
    pub const fn controller(&mut self) -> &mut Controller {
        &mut self.controller
    }

    /// Number of requests that have not been answered yet.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.routes.len()
    }

    fn advance(&mut self, now: Now, decided: &mut impl FnMut(&Record)) {
        let mut records = Vec::new();
        let mut changes = Vec::new();
        while let Some(effect) = self.controller.poll_effect() {
            let (claim, by) = (effect.claim(), now.mono + effect.delay_max());
            match effect {
                Effect::Record(record) => {
                    decided(&record);
                    records.push(record);
                }
                Effect::Publish(message) => {
                    self.is_unflushed = true;
                    self.departures.push_back(Departure::Publish(message));
                }
                Effect::Push(record) => {
                    // Another leader may have pushed later changes of the task by now.
                    if self.controller.doubt().is_some() || claim.waits(self.commits.is_in_trouble()) {
                        self.batch.add(by, Deferred::Push { record, by });
                    } else {
                        changes.push((record, by));
                    }
                }
                Effect::PushAgain(record) => self.batch.add(by, Deferred::PushAgain(record)),
                Effect::JobStatus(status) => self.batch.add(by, Deferred::JobStatus(status)),
                Effect::GraphStatus(change) => self.batch.add(by, Deferred::GraphStatus(change)),
                Effect::Tool(order) => self.departures.push_back(Departure::Tool(order)),
                Effect::Reply(ticket, reply) => {
                    if let Some(route) = self.routes.remove(&ticket) {
                        let claim = Self::claim(&route, &reply, claim);
                        self.answer(by, route, claim, reply);
                    }
                }
            }
        }
        let released = self.commits.handle_turn(now.mono, records, std::mem::take(&mut self.batch));
        if std::mem::take(&mut self.is_unflushed) {
            self.departures.push_back(Departure::Flush);
        }
        if let Some(records) = self.commits.poll_commit(now.mono) {
            self.departures.push_back(Departure::Commit(records));
        }
        for (record, by) in changes {
            self.push(record, by);
        }
        self.release(released);
    }

    /// Sends a reply; the commit that it depends on may wait until `by`, to be shared.
    fn answer(&mut self, by: Mono, route: Route<R>, claim: Claim, reply: Reply) {
        let delay_max = Duration::ZERO;
        if claim.waits(self.commits.is_in_trouble()) {
            self.batch.add(by, Deferred::Reply { route, claim, reply, delay_max });
        } else {
            self.send(route, reply, delay_max);
        }
    }

    fn send(&mut self, route: Route<R>, reply: Reply, delay_max: Duration) {
        self.is_unflushed = true;
        let reply = self.with_trouble(&route, reply);
        self.departures.push_back(Departure::Reply { route, reply, delay_max });
    }

    fn push(&mut self, record: Box<TaskRecord>, by: Mono) {
        self.changes += 1;
        self.departures.push_back(Departure::Push { number: self.changes, record, by });
    }

    /// Releases messages that have waited for a commit.
    fn release(&mut self, deferred: Vec<Deferred<R>>) {
        for message in deferred {
            match message {
                // While the answer waited for the store, its agent was given up, and another round may begin.
                Deferred::Reply { route, reply: Reply::Assigned(record, _), .. }
                    if !self.controller.is_present(&record) =>
                {
                    self.send(route, no_task(), Duration::ZERO);
                }
                Deferred::Reply { route, reply, delay_max, .. } => self.send(route, reply, delay_max),
                Deferred::Push { record, by } => self.push(record, by),
                Deferred::PushAgain(record) => self.departures.push_back(Departure::PushAgain(record)),
                Deferred::JobStatus(status) => self.departures.push_back(Departure::JobStatus(status)),
                Deferred::GraphStatus(change) => self.departures.push_back(Departure::GraphStatus(change)),
            }
        }
    }
}
