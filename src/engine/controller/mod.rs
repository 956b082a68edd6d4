//! The controller: accepts tasks, hands them to agents, and knows how each of them stands.
//!
//! | event | enters by | what it may cause |
//! |---|---|---|
//! | a client's request | [`Controller::handle_request`] | a task waits, is handed out, is killed; or nothing but an answer |
//! | an agent's message | [`Controller::handle_agent`] | a phase changes; a slot becomes free and takes the next task |
//! | an answer that met no peer | [`Controller::handle_undelivered`] | the task waits again |
//! | a connection is gone | [`Controller::handle_disconnected`] | what it was owed is forgotten |
//! | a deadline | [`Controller::handle_timeout`] | an agent is lost; a wait is over; old tasks are forgotten |
//!
//! Who owns what: [`tasks`] the records, their phases and indexes; [`queue`] whose turn it is, with the [`gates`]; [`agents`] the
//! slots, with the [`tools`] of each, and [`looks`] for those that none has; [`adopt`] the runs that agents had before this start;
//! [`leases`] which void runs are waited for; [`family`] who goes down with whom; [`retention`] what is kept and for how long; the
//! [`sequencer`], around the [`Controller`], what leaves when, with the [`commit_queue`]; [`batch_delay`] how late it may be said. The
//! phases of a task stand in
//! [`transition`], those of a slot in [`agents`]; whether another round follows is decided in [`verdict`], and what happens by
//! time alone in [`calendar`].
//!
//! Cost: a submit, a dispatch, a report and a timer are O(log n) in tasks and agents; where tasks require tags, also linear in
//! the different sets of tags among the idle agents, and in the different sets of tools among all agents, where those differ. What
//! looks at many tasks or agents is a search: a slice of work a turn, and the connections take turns ([`scan`]).

mod acknowledge;
mod adopt;
mod agent;
mod agents;
mod assign;
mod calendar;
mod check;
mod commit_queue;
mod effect;
mod family;
mod gates;
mod lanes;
mod leases;
mod looks;
mod names;
mod parked;
mod queue;
mod report;
mod requests;
mod restore;
mod retention;
mod scan;
mod sequencer;
mod batch_delay;
mod tasks;
mod tool_sets;
mod tools;
mod transition;
mod verdict;
mod waits;

#[cfg(test)]
mod scenarios;

use std::collections::BTreeMap;
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;

pub use effect::{Answer, Claim, ConnectionId, Effect, Record, Ticket, Timer};
pub use restore::Stored;
pub use sequencer::{Departure, Route, Sequencer};

use crate::engine::timers::Timers;
use crate::types::{KillCause, Mono, Now, Phase, Round, TaskId};

/// How often the wall clock is looked at while something is due by it: it may jump, so a moment far away is not trusted.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// What the engine must know of the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Between the heartbeats of an agent: `AGENT_HEARTBEAT_INTERVAL`.
    pub heartbeat_interval: Duration,
    /// What an agent needs to end a run, unless it says so itself: [`crate::types::lease::kill_budget`].
    pub kill_budget: Duration,
    /// Tasks that may wait: `WAITING_TASKS_MAX`.
    pub waiting_max: usize,
    /// Bytes of the tasks that wait: `WAITING_BYTES_MAX`.
    pub waiting_bytes_max: usize,
    /// Different combinations of gates, tags and exclusiveness that tasks may wait with: `WAITING_NEEDS_MAX`.
    pub needs_max: usize,
    /// Gates that may be known: `GATES_MAX`.
    pub gates_max: usize,
    /// The pause after a defer that does not say how long: `DEFER_DELAY`.
    pub defer_delay: Duration,
    /// The longest pause between two rounds: `RETRY_DELAY_MAX`.
    pub retry_delay_max: Duration,
    /// The first pause before the end of a task is pushed again: `PUSH_ACK_INTERVAL`.
    pub push_again_interval: Duration,
    /// The longest one: `PUSH_ACK_INTERVAL_MAX`.
    pub push_again_interval_max: Duration,
    /// After which it is no longer pushed: `PUSH_ACK_TIMEOUT`.
    pub push_again_max: Duration,
    /// How long a finished family is kept: `TASK_KEEP_HOURS`.
    pub keep: Duration,
    /// Bytes of finished tasks that are kept: `TASK_KEEP_BYTES_MAX`.
    pub keep_bytes_max: usize,
    /// Tasks or agents in one reply: `DETAILS_LIMIT_MAX`.
    pub page_max: usize,
    /// Agents that may be known at once: `AGENTS_MAX`.
    pub agents_max: usize,
    /// Queries that may be parked at once; a tenth of them by one connection: `PARKED_MAX`.
    pub parked_max: usize,
    /// Searches that may wait for their turn at once; a tenth of them by one connection: `SEARCHES_MAX`.
    pub scans_max: usize,
}

/// The state of a controller. See the module for what it does.
#[derive(Debug)]
pub struct Controller {
    settings: Settings,
    /// Tells agents whether they still talk to the same life of the controller.
    controller_id: u64,
    random: Xoshiro256PlusPlus,
    last_id: TaskId,
    /// Tasks up to here are older than this start of the controller.
    restored_max: TaskId,
    /// The submits of tasks up to here are stored.
    stored_max: TaskId,
    tasks: tasks::Tasks,
    agents: agents::Agents,
    families: family::Families,
    retained: retention::RetainedFamilies,
    /// The void runs of exclusive tasks whose leases are not over.
    expiring: BTreeMap<TaskId, leases::Expiring>,
    /// The ends that receivers have to confirm.
    awaited: BTreeMap<TaskId, acknowledge::Awaited>,
    scans: scan::Scans,
    /// Parked queries.
    waits: waits::Waits,
    /// The search for tools that no agent has.
    looks: looks::Looks,
    timers: Timers<Timer>,
    /// What the deadline of the calendar was set for.
    planned: calendar::Plan,
    /// Whether TASK/INFORM is among the effects of this turn.
    informed: bool,
    stopping: bool,
    /// Why nothing can be accepted, while the store cannot be written.
    store_trouble: Option<String>,
}

impl Controller {
    /// A controller without tasks and agents. The seed decides all ids that it will make.
    #[must_use]
    pub fn new(settings: Settings, seed: u64) -> Self {
        use rand::RngExt as _;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        // An agent reads it from JSON, where whole numbers are exact up to 2^53.
        let controller_id = random.random::<u64>() >> 11;
        Self {
            settings,
            controller_id,
            looks: looks::Looks::numbered_from(controller_id),
            random,
            last_id: TaskId::MIN,
            restored_max: TaskId::MIN,
            stored_max: TaskId::MIN,
            tasks: tasks::Tasks::default(),
            agents: agents::Agents::default(),
            families: family::Families::default(),
            retained: retention::RetainedFamilies::default(),
            expiring: BTreeMap::new(),
            awaited: BTreeMap::new(),
            scans: scan::Scans::default(),
            waits: waits::Waits::default(),
            timers: Timers::default(),
            planned: calendar::Plan::default(),
            informed: false,
            stopping: false,
            store_trouble: None,
        }
    }

    /// Refuses submits from here on and answers everything that is parked.
    pub fn handle_stop(&mut self) {
        self.stopping = true;
        let parked: Vec<_> = self.agents.parked_tickets().map(|(id, _)| id.clone()).collect();
        for id in parked {
            self.unpark(&id);
        }
        let waits: Vec<_> = self.waits.iter().collect();
        for (ticket, _) in waits {
            self.answer_waiter(ticket);
        }
    }

    /// A connection is gone: its parked queries, its searches and the APPLYs of its agents are forgotten. Gives back the tickets that
    /// get no answer for that.
    #[must_use]
    pub fn handle_disconnected(&mut self, connection: ConnectionId) -> Vec<Ticket> {
        let mut forgotten = self.waits.of(connection);
        for ticket in &forgotten {
            self.waits.remove(*ticket);
            self.timers.clear(&Timer::QueryWait(*ticket));
        }
        forgotten.extend(self.scans.forget(connection));
        for (agent, ticket) in self.agents.parked_by(connection) {
            self.agents.set_slot(&agent, agent::Slot::Free);
            self.timers.clear(&Timer::ApplyWait(agent));
            forgotten.push(ticket);
        }
        forgotten
    }

    /// The store cannot be written, or can again. Until it can, submits are refused and everything else goes on.
    pub fn handle_store(&mut self, trouble: Option<String>) {
        self.store_trouble = trouble;
    }

    /// A commit is stored, and with it the submits of all tasks up to this one.
    pub fn handle_committed(&mut self, newest: Option<TaskId>) {
        self.stored_max = self.stored_max.max(newest.unwrap_or(TaskId::MIN));
    }

    /// A submit could not be stored, and its submitter has not been told that it was accepted. True when the task is gone; one
    /// that an agent or a family has already, or that has run, stays, and its submitter must wait; so does one that was there before a
    /// `duplicate` of its submit came.
    pub fn handle_unstored(&mut self, now: Now, task: TaskId, duplicate: bool) -> bool {
        // One that was submitted twice with the same key may be gone already.
        let Some(record) = self.tasks.get(task) else { return true };
        if duplicate {
            // It may be stored since long ago, and promised to somebody.
            return false;
        }
        let has_run = record.round > Round(0) || !record.past.is_empty();
        let gone = record.phase() == Phase::Waiting && !has_run && !self.families.has(task);
        if gone {
            self.tasks.remove(now, task);
        }
        gone
    }

    /// What every event ends with: whoever can start does, and the calendar knows what comes next.
    fn settle(&mut self, now: Now) {
        self.look_for_tools(now);
        self.dispatch(now);
        self.plan(now);
    }

    /// The next thing to do. When there is none, the turn is over.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        let effect = self.tasks.effects.pop_front();
        if effect.is_none() {
            self.informed = false;
            self.scans.begin_turn();
        }
        effect
    }

    /// The next deadline, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Mono, &Timer)> {
        self.timers.next()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Now) {
        if self.timers.next().is_some_and(|(at, _)| at <= now.mono) {
            self.do_what_is_due(now);
            self.settle(now);
        }
    }

    fn do_what_is_due(&mut self, now: Now) {
        // A search sets its deadline anew at once, so each reason gets one go only.
        let mut scanned = false;
        while let Some(timer) = self.timers.pop_due(now.mono) {
            match timer {
                Timer::Scan if std::mem::replace(&mut scanned, true) => {
                    return self.timers.set(Timer::Scan, now.mono);
                }
                Timer::Scan => self.continue_scans(now),
                Timer::Silence(agent) => self.silence(now, agent),
                Timer::Lease(task) => self.end_lease(now, task),
                Timer::Look => self.give_up_look(),
                Timer::ApplyWait(agent) => self.unpark(&agent),
                Timer::QueryWait(ticket) => self.answer_waiter(ticket),
                Timer::RunTime(task) => self.kill(now, task, &KillCause::TimedOut),
                Timer::Calendar => self.look_at_calendar(now),
                Timer::PushAgain(task) => self.push_again(now, task),
                Timer::Retention => {
                    self.retain(now);
                    if self.timers.next().is_some_and(|(at, timer)| at <= now.mono && *timer == Timer::Retention) {
                        return;
                    }
                }
            }
        }
    }
}
