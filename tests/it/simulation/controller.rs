//! The controller's process around the real engine, and its disk: how it starts, wakes up, stops and dies.
//!
//! Its actions while it is awake are in [`crate::turn`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use api::wire::graph;
use api::wire::graph::{GraphRow, StoredGraph};
use api::wire::rules::{Rules, SubmitLimits};
use base::json::FieldLimits;
use base::{
    AddressPolicy, AgentId, Counts, Epoch, GateSettings, GraphId, JobMemo, JobName, Label, Now, Policy, Round, TaskId,
    TaskRecord, TaskState,
};
use engine::{
    ConnectionId, Controller, Record, Sequencer, Settings, Stored, StoredTools, ToolSettings, silence_of_cut,
};

use crate::simulation::dice::{MILLI, Nanos, SECOND};
use crate::simulation::event::{Defect, Event};
use crate::simulation::leaders::Deposed;
use crate::simulation::plan::HEARTBEAT;
use crate::simulation::world::{World, note};

#[derive(Default)]
pub(crate) struct Server {
    pub(crate) life: Option<Life>,
    /// The committed data.
    pub(crate) disk: BTreeMap<TaskId, TaskRecord>,
    pub(crate) gates: BTreeMap<Label, GateSettings>,
    pub(crate) drained: BTreeSet<AgentId>,
    pub(crate) memos: BTreeMap<JobName, JobMemo>,
    pub(crate) graphs: BTreeMap<GraphId, GraphRow>,
    pub(crate) entries: BTreeMap<(GraphId, u32), String>,
    /// The rounds that went to the history with a commit.
    pub(crate) history: BTreeSet<(TaskId, Round)>,
    wake_at: Option<Nanos>,
    pub(crate) lives: u64,
    /// The controller that led before, and does not know that it does not any more.
    pub(crate) deposed: Option<Deposed>,
    /// Whether that one is awake at the moment.
    pub(crate) is_deposed: bool,
    /// Operations until it is killed.
    pub(crate) crash_in: Option<u64>,
    pub(crate) clock_offset: i64,
    /// Until then its disk is slow.
    pub(crate) slow_until: Nanos,
    /// Until then its disk takes nothing.
    pub(crate) full_until: Nanos,
    /// The next commit ends in a way that the controller cannot know.
    pub(crate) breaks: bool,
}

/// The state that dies with the process.
pub(crate) struct Life {
    pub(crate) sequencer: Sequencer<ReplyTo>,
    pub(crate) inbox: VecDeque<(ReplyTo, Vec<u8>)>,
    /// Which life of the controller this is.
    pub(crate) number: u64,
    /// The messages to agents since the last commit began.
    pub(crate) told: Told,
    /// The data that the store is about to commit.
    pub(crate) commits: VecDeque<Commit>,
    /// The result of the last commit, before the controller has seen it.
    pub(crate) outcome: Option<Outcome>,
    /// The last commit that it has seen was not stored.
    pub(crate) in_trouble: bool,
    /// The frames that receivers of pushes have sent back.
    pub(crate) confirmations: VecDeque<(TaskId, u32)>,
}

pub(crate) struct Commit {
    pub(crate) records: Vec<Record>,
    pub(crate) told: Told,
}

pub(crate) enum Outcome {
    Stored,
    Full(Vec<Record>),
    /// Nothing is known of it.
    Doubtful(Vec<Record>),
}

/// The messages to agents before their data is stored.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) dispatches: BTreeSet<(TaskId, Round, AgentId)>,
    pub(crate) kills: BTreeSet<(TaskId, Round)>,
}

impl Told {
    /// Where other controllers may lead, a run is told after its commit.
    pub(crate) fn note(&mut self, record: &Record, stores_first: bool) {
        let Record::Put(record) = record else { return };
        if let TaskState::Dispatched(run) = &record.state
            && !stores_first
        {
            self.dispatches.insert((record.id, record.round, run.agent.clone()));
        }
        if record.kill.is_some() {
            self.kills.insert((record.id, record.round));
        }
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.dispatches.extend(other.dispatches);
        self.kills.extend(other.kills);
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ReplyTo {
    Agent { connection: usize },
    Client { request: usize, attempt: u32 },
}

impl ReplyTo {
    /// All clients share one connection, which never breaks.
    pub(crate) fn connection(self) -> ConnectionId {
        let number = match self {
            Self::Agent { connection } => connection as u64,
            Self::Client { .. } => u64::MAX,
        };
        ConnectionId { door: 0, number }
    }
}

/// The process has been killed.
pub(crate) struct Killed;

fn settings(stores_first: bool) -> Settings {
    Settings {
        heartbeat_interval: Duration::from_nanos(HEARTBEAT),
        lost_after: silence_of_cut(Duration::from_nanos(2 * HEARTBEAT), Duration::from_nanos(HEARTBEAT)),
        kill_budget: crate::simulation::plan::kill_budget(),
        waiting_max: 10_000,
        waiting_bytes_max: usize::MAX,
        // Nothing is forgotten, however the clock jumps: every task is looked at in the end.
        keep: Duration::from_secs(10 * 365 * 86_400),
        keeps_history: true,
        keep_bytes_max: usize::MAX,
        page_max: 1000,
        agents_max: 1000,
        parked_max: 1000,
        scans_max: 64,
        part_bytes_max: 4096,
        job_receivers_max: 16,
        stores_first,
        step_grace: Duration::from_secs(1),
        tools: ToolSettings::default(),
        needs_max: 1000,
        gates_max: 1000,
        list_time_max: Duration::from_millis(50),
        list_tasks_max: 8,
        stay_wait_max: Duration::from_millis(500),
        defer_delay: Duration::from_millis(300),
        retry_delay_max: Duration::from_secs(3),
        push_again_interval: Duration::from_millis(200),
        push_again_interval_max: Duration::from_secs(2),
        push_again_max: Duration::from_secs(3600),
    }
}

pub(crate) fn rules() -> Rules {
    let allow = vec!["127.0.0.0/8".parse().expect("a network")];
    let addresses = AddressPolicy { allow, own: vec![] };
    let defaults = Policy { losses_max: 3, ..Policy::default() }.into();
    const HOUR: Duration = Duration::from_secs(3600);
    Rules {
        limits: FieldLimits::TRUSTED,
        addresses,
        wait_max: HOUR,
        apply_wait_max: HOUR,
        defaults,
        submits: SubmitLimits::DEFAULT,
        graphs: base::GraphLimits::DEFAULT,
        sources: base::AllowedSources::default(),
    }
}

impl Server {
    pub(crate) const fn is_up(&self) -> bool {
        self.life.is_some()
    }

    fn stored(&self, epoch: Option<Epoch>) -> Stored {
        Stored {
            epoch,
            raised: None,
            tasks: self.disk.values().cloned().collect(),
            gates: self.gates.clone().into_iter().collect(),
            drained: self.drained.iter().cloned().collect(),
            jobs: self.memos.clone().into_iter().collect(),
            graphs: self.graphs.iter().map(|(graph, row)| self.stored_graph(*graph, row)).collect(),
            tools: StoredTools::default(),
        }
    }

    fn stored_graph(&self, graph: GraphId, row: &GraphRow) -> StoredGraph {
        let entries = self.entries.range((graph, 0)..=(graph, u32::MAX));
        let mut list = Vec::new();
        for (((_, number), entry), expected) in entries.zip(1..) {
            assert_eq!(*number, expected, "an entry of {graph} is missing");
            list.push(entry.clone());
        }
        graph::decode(row, &list, &rules()).expect("a row of ours")
    }

    /// Drops the plans for a controller that has ended.
    pub(crate) const fn forget_plans(&mut self) {
        self.crash_in = None;
        self.breaks = false;
        self.wake_at = None;
    }

    pub(crate) fn routes(&self) -> usize {
        self.life.as_ref().map_or(0, |life| life.sequencer.unanswered())
    }
}

impl World {
    pub(crate) fn life(&mut self) -> &mut Life {
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
        let (seed, now) = (self.dice.number(), self.controller_now());
        note!(self, "the controller starts with {} tasks", self.server.disk.len());
        self.server.lives += 1;
        let stored = self.defective(self.server.stored(self.epoch()));
        let settings = settings(self.plan.is_shared() && self.defect != Some(Defect::SureLeaders));
        let sequencer = Sequencer::new(Controller::restore(settings, seed, now, stored));
        sequencer.sanity_check();
        self.server.life = Some(Life {
            sequencer,
            inbox: VecDeque::new(),
            number: self.server.lives,
            told: Told::default(),
            commits: VecDeque::new(),
            outcome: None,
            in_trouble: false,
            confirmations: VecDeque::new(),
        });
        self.model.controller_started(&self.server.disk);
        self.model.graphs.controller_started(|graph| self.server.graphs.contains_key(&graph));
        self.wake_controller(self.now);
    }

    /// The stored data as read by a controller with a defect.
    fn defective(&self, mut stored: Stored) -> Stored {
        match self.defect {
            Some(Defect::ForgottenGates) => stored.gates.clear(),
            Some(Defect::ForgottenDrains) => stored.drained.clear(),
            Some(Defect::ForgottenCounts) => {
                stored.tasks.iter_mut().for_each(|record| record.counts = Counts::default());
            }
            Some(Defect::UsedNumbers) => {
                stored.tasks.iter_mut().for_each(|record| record.pushes = record.pushes.saturating_sub(2));
            }
            Some(Defect::ForgottenProgress) => {
                for record in &mut stored.tasks {
                    if let TaskState::Preparing(run) | TaskState::Running(run) = &record.state {
                        record.state = TaskState::Dispatched(run.clone());
                    }
                }
            }
            Some(Defect::ForgottenLists) => {
                for record in &mut stored.tasks {
                    if matches!(&record.state, TaskState::Dispatched(run) if run.ahead.is_some()) {
                        record.state = TaskState::Waiting { not_before: None };
                    }
                }
            }
            Some(Defect::TurnedPriorities) => {
                for record in &mut stored.tasks {
                    let mut policy = Policy::clone(&record.policy);
                    policy.priority = -policy.priority;
                    record.policy = Arc::new(policy);
                }
            }
            _ => {}
        }
        stored
    }

    /// The time that the controller's engine is told.
    pub(crate) fn controller_now(&self) -> Now {
        let early = i64::from(self.defect == Some(Defect::EarlyStart));
        self.clock(self.server.clock_offset + early)
    }

    pub(crate) fn wake_controller(&mut self, at: Nanos) {
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
        let now = self.controller_now();
        if self.turn(now).is_err() {
            return self.controller_dies();
        }
        self.life().sequencer.sanity_check();
        if let Some((at, _)) = self.life().sequencer.poll_timeout() {
            let at = self.nanos_of(at);
            self.wake_controller(at);
        }
    }

    /// kill -9: what was not committed is lost, also what the engine had not even said yet. A commit that was under way is in
    /// the store as a whole, or not at all.
    pub(crate) fn controller_dies(&mut self) {
        if !self.server.is_up() {
            return;
        }
        let now = self.controller_now();
        while self.poll_departure(now).is_some() {}
        self.end_commits();
        let Some(life) = self.server.life.take() else { unreachable!("it was up a moment ago") };
        self.model.unrecorded(life.told);
        self.controller_is_gone(life.number);
    }

    /// A commit under way is in the store as a whole, or not at all, and its controller never learns which.
    pub(crate) fn end_commits(&mut self) {
        for commit in std::mem::take(&mut self.life().commits) {
            let stored = self.dice.chance(500);
            note!(self, "{} records of a commit under way are stored: {stored}", commit.records.len());
            if stored {
                self.commit(&commit.records);
            } else {
                self.life().told.extend(commit.told);
            }
        }
    }

    fn controller_is_gone(&mut self, life: u64) {
        self.server.forget_plans();
        self.break_all(life);
        let delay = self.dice.skewed(10 * MILLI..=4 * SECOND);
        self.after(delay, Event::ControllerStarts);
    }

    /// SIGTERM: answers all waiting clients, and ends when everything is stored.
    pub(crate) fn controller_stops(&mut self) {
        if !self.server.is_up() {
            return;
        }
        note!(self, "the controller stops");
        let now = self.controller_now();
        self.life().sequencer.handle_stop();
        let mut turned = self.turn(now);
        while turned.is_ok() && self.end_commit() {
            turned = self.turn(now);
        }
        match turned {
            Err(Killed) => self.controller_dies(),
            Ok(()) => {
                assert!(self.life().sequencer.is_at_rest());
                self.life().sequencer.sanity_check();
                // Data that a full disk has refused is lost.
                let Some(life) = self.server.life.take() else { unreachable!("it was up a moment ago") };
                self.model.unrecorded(life.told);
                self.controller_is_gone(life.number);
            }
        }
    }
}
