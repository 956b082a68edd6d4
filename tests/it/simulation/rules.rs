//! The rules of policies, told from what the controller stores, in the order in which it does: who waits, who is with an agent,
//! and whether each dispatch was right. Panics when one was not.
//!
//! A controller that dies takes with it what it had not stored: the view of the next one begins with the disk. A first round
//! that an agent has from a controller that could not store it is not a decision; it counts, but is not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{
    AgentId, GateSettings, Label, Labels, Mono, Now, Offer, Pace, Phase, Round, RoundEnd, TaskId, TaskRecord,
    TaskState, Wall,
};
use engine::Record;

use crate::simulation::model::Disk;
use crate::simulation::relations::Relations;

#[derive(Default)]
pub(crate) struct Rules {
    /// All tasks, as the controller knows them.
    tasks: Disk,
    gates: BTreeMap<Label, GateSettings>,
    drained: BTreeSet<AgentId>,
    /// The facts that are fixed for good.
    stored_gates: BTreeMap<Label, GateSettings>,
    stored_drained: BTreeSet<AgentId>,
    /// Starts since the pace of a gate was set.
    starts: BTreeMap<Label, Vec<(Mono, TaskId, Round)>>,
    /// Tasks that waited in their first round when the controller started.
    doubtful: BTreeSet<TaskId>,
    /// The tasks that are in the lists of agents, and have not started.
    ahead: BTreeSet<TaskId>,
    /// The same before this turn, in which some of them may have started.
    were_ahead: BTreeSet<TaskId>,
    /// Those that have been.
    handed_ahead: BTreeSet<TaskId>,
    /// The agents by the numbers in their names: whether they are special.
    special: Vec<bool>,
    /// Whether the wall clock of the controller never jumps.
    steady: bool,
    pub(crate) relations: Relations,
}

impl Rules {
    pub(crate) fn new(special: Vec<bool>, steady: bool) -> Self {
        Self { special, steady, ..Self::default() }
    }

    pub(crate) fn controller_started(&mut self, disk: &Disk) {
        self.tasks.clone_from(disk);
        // The new controller waits for the agents of silent runs, as for all others.
        for record in self.tasks.values_mut().filter(|record| record.is_out_of_contact()) {
            record.state = record.stored_state().clone();
        }
        self.relations.controller_started();
        self.gates.clone_from(&self.stored_gates);
        self.drained.clone_from(&self.stored_drained);
        let doubtful = |record: &&TaskRecord| record.phase() == Phase::Waiting && record.round == Round(0);
        self.doubtful = disk.values().filter(doubtful).map(|record| record.id).collect();
        if !self.steady {
            // The starts of before are told by the wall clock.
            self.starts.clear();
        }
        // The starts that were not stored are unknown after a crash.
        for starts in self.starts.values_mut() {
            starts.retain(|(_, task, round)| {
                disk.get(task).is_some_and(|record| {
                    let past = record.past.iter().any(|past| past.round == *round && past.assignment.is_some());
                    past || record.round == *round && record.last_run().is_some()
                })
            });
        }
    }

    /// The tasks that are in the lists of agents from this turn on.
    pub(crate) fn ahead(&mut self, ahead: BTreeSet<TaskId>) {
        self.handed_ahead.extend(&ahead);
        self.were_ahead = std::mem::replace(&mut self.ahead, ahead);
    }

    /// Whether a task has been in the list of an agent.
    pub(crate) fn was_ahead(&self, task: TaskId) -> bool {
        self.handed_ahead.contains(&task)
    }

    /// Stored data will be there after a crash.
    pub(crate) fn committed(&mut self, record: &Record) {
        match record {
            Record::Gate(name, settings) => drop(self.stored_gates.insert(name.clone(), settings.clone())),
            Record::Drained(agent, true) => drop(self.stored_drained.insert(agent.clone())),
            Record::Drained(agent, false) => drop(self.stored_drained.remove(agent)),
            Record::Put(record) => self.relations.committed(record),
            Record::Round(..) | Record::Remove(_) | Record::Job(..) | Record::Graph(..) | Record::GraphEntry(..) => {}
        }
    }

    /// The controller has decided something.
    pub(crate) fn decided(&mut self, now: Now, record: &Record, has_its_tool: bool) {
        match record {
            Record::Put(record) => self.changed(now, record, has_its_tool),
            Record::Remove(task) => drop(self.tasks.remove(task)),
            Record::Gate(name, settings) => {
                if self.gates.get(name).map(|before| before.pace) != Some(settings.pace) {
                    self.starts.remove(name);
                }
                self.gates.insert(name.clone(), settings.clone());
            }
            Record::Drained(agent, true) => drop(self.drained.insert(agent.clone())),
            Record::Drained(agent, false) => drop(self.drained.remove(agent)),
            Record::Round(..) | Record::Job(..) | Record::Graph(..) | Record::GraphEntry(..) => {}
        }
    }

    fn changed(&mut self, now: Now, record: &TaskRecord, has_its_tool: bool) {
        check_budgets(record);
        let before = self.tasks.insert(record.id, record.clone());
        self.relations.decided(record, &self.tasks);
        let waited = before.as_ref().is_none_or(|before| before.phase() == Phase::Waiting);
        let rejoins = before.as_ref().is_some_and(TaskRecord::is_out_of_contact);
        match &record.state {
            // Its run is with its agent again.
            TaskState::Dispatched(_) if rejoins => {}
            // It was handed out before others came and before its agent was drained; only that may be late.
            TaskState::Dispatched(_) if record.round == Round(0) && self.handed_ahead.contains(&record.id) => {}
            TaskState::Dispatched(run) if waited => {
                let adopted = record.round == Round(0) && self.doubtful.contains(&record.id);
                if !adopted {
                    self.check_start(now, record, before.as_ref(), &run.agent);
                    if has_its_tool {
                        self.check_turn(now, record);
                    }
                }
                for gate in record.policy.needs.gates.iter() {
                    self.starts.entry(gate.clone()).or_default().push((now.mono, record.id, record.round));
                    if !adopted {
                        self.check_gate(now, gate);
                    }
                }
            }
            TaskState::Waiting { .. } => {
                // A task that was not delivered has not started.
                let same_round = before.is_some_and(|before| before.round == record.round);
                for starts in self.starts.values_mut().filter(|_| same_round) {
                    starts.retain(|(_, task, round)| (*task, *round) != (record.id, record.round));
                }
            }
            _ => {}
        }
    }

    /// Whether this task could start, and there.
    fn check_start(&self, now: Now, record: &TaskRecord, before: Option<&TaskRecord>, agent: &AgentId) {
        let (id, policy) = (record.id, &record.policy);
        assert!(record.held.is_none(), "{id} starts although it is held");
        assert!(policy.end_before.is_none_or(|end| now.wall < end), "{id} starts after its end");
        if self.steady {
            assert!(policy.start_after.is_none_or(|start| start <= now.wall), "{id} starts before __START_AFTER__");
            let not_before = before.and_then(not_before);
            assert!(
                not_before.is_none_or(|at| at <= now.wall),
                "{id} starts before {not_before:?}, when its pause ends"
            );
        }
        assert!(!self.drained.contains(agent), "{id} goes to the drained agent {agent}");
        let tags = self.tags_of(agent);
        assert!(policy.needs.tags.are_within(&tags), "{id} goes to {agent}, which has not {:?}", policy.needs.tags);
    }

    /// Whether it was the turn of this task. Not of one whose tool is nowhere: any agent may get it.
    fn check_turn(&self, now: Now, record: &TaskRecord) {
        let (id, policy) = (record.id, &record.policy);
        let first = |other: &&TaskRecord| {
            let needs = &other.policy.needs;
            // The other tools of an agent become known to a new controller only with the next heartbeat.
            let offer =
                Offer { tags: policy.needs.tags.clone(), is_full: policy.needs.exclusive || policy.needs.files };
            let suits = *needs == policy.needs || needs.gates.is_empty() && offer.meets(needs);
            let earlier = (-i32::from(other.policy.priority), other.id) < (-i32::from(policy.priority), id);
            suits
                && record.tool == other.tool
                && earlier
                && other.held.is_none()
                && other.unmet.is_empty()
                && !matches!(other.state, TaskState::OutOfContact { suspected: true, .. })
                && not_before(other).is_none_or(|at| at <= now.wall)
        };
        let is_ahead = |task: &TaskId| self.ahead.contains(task) || self.were_ahead.contains(task);
        let waits = |other: &&TaskRecord| other.phase() == Phase::Waiting && !is_ahead(&other.id);
        let waiting = self.tasks.values().filter(waits);
        if let Some(other) = waiting.into_iter().find(first) {
            panic!("{id} starts before its turn: {} waits, too", other.id);
        }
    }

    fn tags_of(&self, agent: &AgentId) -> Labels {
        let index = agent.as_str().split('-').nth(1).and_then(|index| index.parse::<usize>().ok());
        let special = index.and_then(|index| self.special.get(index)).copied().unwrap_or_default();
        Labels::parse(if special { "special" } else { "" }).expect("a name of ours")
    }

    /// Whether a gate had room for the last one that passed.
    fn check_gate(&self, now: Now, gate: &Label) {
        let Some(settings) = self.gates.get(gate) else { return };
        if let Some(max) = settings.running_max {
            let active = |record: &&TaskRecord| {
                (Phase::Dispatched..=Phase::Ended).contains(&record.phase()) && record.policy.needs.gates.contains(gate)
            };
            let running = self.tasks.values().filter(active).count();
            assert!(running <= max as usize, "{running} tasks are beyond {gate}, which lets {max} run");
        }
        if let Some(Pace { starts, interval }) = settings.pace {
            let lately = self.starts.get(gate).into_iter().flatten();
            // A new controller knows the starts by the wall clock, in whole microseconds.
            let shown = interval.saturating_sub(Duration::from_micros(2));
            let count = lately.filter(|(at, ..)| now.mono.since(*at) < shown).count();
            assert!(count <= starts as usize, "{count} starts beyond {gate} within {interval:?}, which lets {starts}");
        }
        let closed = settings.closed_until.filter(|until| now.wall < *until);
        assert!(closed.is_none(), "{gate} is passed although it is closed until {closed:?}");
    }
}

const fn not_before(record: &TaskRecord) -> Option<Wall> {
    match record.state {
        TaskState::Waiting { not_before } | TaskState::OutOfContact { not_before, .. } => not_before,
        _ => None,
    }
}

/// No budget is overspent, and each counter says what the rounds say.
fn check_budgets(record: &TaskRecord) {
    let (id, counts, policy) = (record.id, record.counts, &record.policy);
    let finished = u32::from(record.phase() == Phase::Finished);
    assert!(counts.fails <= policy.fails_max + finished, "{id} goes on after {} failures", counts.fails);
    assert!(counts.timeouts <= policy.timeouts_max + finished, "{id} goes on after {} time-outs", counts.timeouts);
    assert!(counts.defers <= policy.defers_max, "{id} has deferred {} times", counts.defers);
    if record.phase() == Phase::Waiting {
        assert!(counts.losses <= policy.losses_max, "{id} goes on after {} losses", counts.losses);
    }
    if record.past.len() >= TaskRecord::PAST_ROUNDS_MAX {
        return;
    }
    let retried = record.past.iter().rposition(|past| past.end == RoundEnd::Retried).map_or(0, |index| index + 1);
    let past = &record.past[retried..];
    let ended = |end| past.iter().filter(|past| past.end == end).count();
    let outcome = if let TaskState::Finished { outcome, .. } = record.state { Some(outcome) } else { None };
    let last = |wanted| usize::from(outcome == Some(wanted));
    let fails = ended(RoundEnd::Failed) + last(base::Outcome::Failed);
    assert_eq!(counts.fails as usize, fails, "the failures of {id}: {record:?}");
    let timeouts = ended(RoundEnd::TimedOut) + last(base::Outcome::TimedOut);
    assert_eq!(counts.timeouts as usize, timeouts, "the time-outs of {id}: {record:?}");
    assert_eq!(counts.defers as usize, ended(RoundEnd::Deferred), "the defers of {id}: {record:?}");
}
