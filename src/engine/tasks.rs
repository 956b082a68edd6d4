//! The tasks: their records with the indexes, their families, and their ids. [`change`] is the only way to change a record, so that
//! no index is missed.

pub(crate) mod acknowledge;
pub(crate) mod change;
pub(crate) mod deadlines;
pub(crate) mod family;
pub(crate) mod figures;
mod invariants;
mod pins;
pub(crate) mod restore;
pub(crate) mod retention;
mod task_index;
pub(crate) mod transition;
pub(crate) mod verdict;
pub(crate) mod withdrawal;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::relations::Relations;
use acknowledge::Awaited;
use base::{AgentId, GraphId, Now, Phase, TaskId, TaskRecord, Wall, is_longer};
use deadlines::Plan;
use family::Families;
use figures::Figures;
use rand::rngs::Xoshiro256PlusPlus;
use retention::RetainedFamilies;
use task_index::TaskIndex;
use withdrawal::{Limits, Replaced};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Tasks {
    /// By id, and thus by the time of submission. Boxed: ids only grow, and such a map leaves its nodes half empty.
    records: BTreeMap<TaskId, Box<TaskRecord>>,
    ids: Ids,
    given_ids: TaskIndex,
    submit_keys: TaskIndex,
    counts: [usize; Phase::ALL.len()],
    pub(crate) figures: Figures,
    pub(crate) families: Families,
    pub(crate) retained: RetainedFamilies,
    /// The end-before times of unfinished tasks.
    end_before: BTreeSet<(Wall, TaskId)>,
    /// The moments for which the deadline of the calendar was set.
    planned: Plan,
    /// The tasks whose runs are out of contact, by their agents.
    silent: BTreeSet<(AgentId, TaskId)>,
    /// The ends that await a confirmation by their receivers.
    pub(crate) awaited: BTreeMap<TaskId, Awaited>,
    /// The limits of failures that unstored submits have replaced.
    unstored_limits: Limits,
}

/// The ids of tasks, which grow with time.
#[derive(Debug)]
struct Ids {
    random: Xoshiro256PlusPlus,
    last: TaskId,
    /// Tasks up to this id are older than this start of the controller.
    restored_max: TaskId,
    /// The submits of tasks up to this id are stored.
    stored_max: TaskId,
}

impl Ids {
    /// Never uses the same microsecond twice, so that the order of ids is the order of submission, whatever the clock does.
    fn next(&mut self, wall: Wall) -> (Wall, [u32; TaskId::SUFFIX_LEN]) {
        use rand::RngExt as _;
        let at = Wall::from_micros(wall.micros().max(self.last.wall().micros() + 1));
        let random = self.random.random();
        self.last = TaskId::new(at, random);
        (at, random)
    }
}

impl Tasks {
    /// A table without tasks. The ids of new tasks are made with `random`.
    pub(crate) fn new(random: Xoshiro256PlusPlus) -> Self {
        let ids = Ids { random, last: TaskId::MIN, restored_max: TaskId::MIN, stored_max: TaskId::MIN };
        Self {
            records: BTreeMap::new(),
            ids,
            given_ids: TaskIndex::default(),
            submit_keys: TaskIndex::default(),
            counts: [0; Phase::ALL.len()],
            figures: Figures::default(),
            families: Families::default(),
            retained: RetainedFamilies::default(),
            end_before: BTreeSet::new(),
            planned: Plan::default(),
            silent: BTreeSet::new(),
            awaited: BTreeMap::new(),
            unstored_limits: Limits::new(),
        }
    }

    /// The id of the youngest task or graph.
    pub(crate) const fn last_id(&self) -> TaskId {
        self.ids.last
    }

    /// Tasks up to this id are older than this start of the controller.
    pub(crate) const fn restored_max(&self) -> TaskId {
        self.ids.restored_max
    }

    /// Whether the submit of a task is stored.
    pub(crate) fn submit_is_stored(&self, task: TaskId) -> bool {
        task <= self.ids.stored_max
    }

    /// The submits of all tasks up to this one are stored.
    pub(crate) fn note_stored(&mut self, newest: Option<TaskId>) {
        self.ids.stored_max = self.ids.stored_max.max(newest.unwrap_or(TaskId::MIN));
    }

    pub(crate) fn new_id(&mut self, wall: Wall) -> TaskId {
        let (at, random) = self.ids.next(wall);
        TaskId::new(at, random)
    }

    /// A new id for a graph. It is older than the ids of its tasks.
    pub(crate) fn new_graph_id(&mut self, wall: Wall) -> GraphId {
        let (at, random) = self.ids.next(wall);
        GraphId::new(at, random)
    }

    /// A submit that is not stored yet has replaced this limit of a job.
    pub(crate) fn note_limit(&mut self, task: TaskId, replaced: Replaced) {
        self.unstored_limits.insert(task, replaced);
    }

    /// The time that most runs of the job of a task did not exceed, or of its tool.
    pub(crate) fn usual(&self, relations: &Relations, record: &TaskRecord) -> Option<Duration> {
        relations.usual(record).or_else(|| self.figures.usual(&record.tool))
    }

    /// Whether the last run of a task takes, or has taken, longer than usual.
    pub(crate) fn runs_longer(&self, relations: &Relations, now: Now, record: &TaskRecord) -> bool {
        let ran = record.ran(now.wall);
        ran.zip(self.usual(relations, record)).is_some_and(|(ran, usual)| is_longer(ran, usual))
    }

    pub(crate) fn get(&self, id: TaskId) -> Option<&TaskRecord> {
        self.records.get(&id).map(|record| &**record)
    }

    /// The tasks whose runs at this agent are out of contact.
    pub(crate) fn out_of_contact(&self, agent: &AgentId) -> Vec<TaskId> {
        self.of_silent(agent).collect()
    }

    /// Whether any run at this agent is out of contact.
    pub(crate) fn has_out_of_contact(&self, agent: &AgentId) -> bool {
        !self.silent.is_empty() && self.of_silent(agent).next().is_some()
    }

    fn of_silent(&self, agent: &AgentId) -> impl Iterator<Item = TaskId> {
        let first = (agent.clone(), TaskId::MIN);
        self.silent.range(first..).take_while(move |(other, _)| other == agent).map(|(_, task)| *task)
    }

    /// The tasks whose runs are out of contact at any agent.
    pub(crate) fn all_out_of_contact(&self) -> Vec<TaskId> {
        self.silent.iter().map(|(_, task)| *task).collect()
    }

    /// Whether any run is out of contact.
    pub(crate) fn are_out_of_contact(&self) -> bool {
        !self.silent.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Number of tasks in each phase, in the order of [`Phase::ALL`].
    pub(crate) const fn counts(&self) -> [usize; Phase::ALL.len()] {
        self.counts
    }

    /// The tasks older than `before`, newest first.
    pub(crate) fn newest_before(&self, before: Option<TaskId>) -> impl Iterator<Item = &TaskRecord> {
        use std::ops::Bound::{Excluded, Unbounded};
        let end = before.map_or(Unbounded, Excluded);
        self.records.range((Unbounded, end)).rev().map(|(_, record)| &**record)
    }

    /// The tasks with this given id that are older than `before`, newest first.
    pub(crate) fn with_given_id<'a>(
        &'a self,
        given_id: &str,
        before: Option<TaskId>,
    ) -> impl Iterator<Item = &'a TaskRecord> + use<'a> {
        self.given_ids.get(given_id, before).filter_map(|id| self.get(id))
    }

    /// The task that was submitted with this key.
    pub(crate) fn with_submit_key(&self, key: &str) -> Option<&TaskRecord> {
        self.submit_keys.get(key, None).find_map(|id| self.get(id))
    }

    /// Whether a run of a task must not start yet: its submit has a key and is not stored, so its repetition at the next controller
    /// would make another task.
    pub(crate) fn must_be_stored(&self, id: TaskId) -> bool {
        let is_eager = || self.get(id).is_some_and(|record| record.policy.eager);
        !self.submit_is_stored(id) && self.submit_keys.has(id) && !is_eager()
    }

    /// A finished task that is about to wait again waits for these terms, too.
    pub(crate) fn set_unmet(&mut self, id: TaskId, unmet: Vec<u16>) {
        if let Some(record) = self.records.get_mut(&id) {
            debug_assert_eq!(record.phase(), Phase::Finished, "task {id} waits for its terms already");
            record.unmet = unmet;
        }
    }
}
