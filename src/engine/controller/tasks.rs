//! The table of tasks with its indexes. Every change of a task goes through here, so that no index can be forgotten.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::effect::{Effect, Record};
use super::transition::{self, TaskEvent};
use crate::types::{Phase, TaskId, TaskRecord};

#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// By id, and so by the time of submission.
    records: BTreeMap<TaskId, TaskRecord>,
    /// The tasks that wait, oldest first.
    waiting: BTreeSet<TaskId>,
    by_given_id: BTreeSet<(Arc<str>, TaskId)>,
    given_ids: BTreeMap<TaskId, Arc<str>>,
    counts: [usize; Phase::ALL.len()],
    pub(super) effects: VecDeque<Effect>,
}

impl Tasks {
    pub(super) fn get(&self, id: TaskId) -> Option<&TaskRecord> {
        self.records.get(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// How many tasks are in each phase, in the order of [`Phase::ALL`].
    pub(super) const fn counts(&self) -> [usize; Phase::ALL.len()] {
        self.counts
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The task whose turn it is.
    pub(super) fn next_waiting(&self) -> Option<TaskId> {
        self.waiting.first().copied()
    }

    /// The tasks older than `before`, newest first.
    pub(super) fn newest_before(&self, before: Option<TaskId>) -> impl Iterator<Item = &TaskRecord> {
        use std::ops::Bound::{Excluded, Unbounded};
        let end = before.map_or(Unbounded, Excluded);
        self.records.range((Unbounded, end)).rev().map(|(_, record)| record)
    }

    /// The tasks with this given id, newest first.
    pub(super) fn with_given_id(&self, given_id: &str) -> impl Iterator<Item = &TaskRecord> {
        let given_id: Arc<str> = given_id.into();
        let oldest = (Arc::clone(&given_id), TaskId::MIN);
        let newest = (given_id, TaskId::MAX);
        self.by_given_id.range(oldest..=newest).rev().filter_map(|(_, id)| self.records.get(id))
    }

    /// Takes a new task in.
    pub(super) fn insert(&mut self, record: TaskRecord, given_id: Option<String>) {
        self.effects.push_back(Effect::Record(Record::Put(Box::new(record.clone()))));
        self.restore(record, given_id);
    }

    /// Takes a task in that is stored already.
    pub(super) fn restore(&mut self, record: TaskRecord, given_id: Option<String>) {
        let id = record.id;
        if let Some(given_id) = given_id {
            let given_id: Arc<str> = given_id.into();
            self.by_given_id.insert((Arc::clone(&given_id), id));
            self.given_ids.insert(id, given_id);
        }
        self.note_phase(id, record.phase());
        let before = self.records.insert(id, record);
        assert!(before.is_none(), "task {id} exists twice");
    }

    /// The one place where a task changes its phase. Stores and pushes what must be.
    pub(super) fn change(&mut self, id: TaskId, event: TaskEvent) {
        let Some(record) = self.records.get_mut(&id) else { unreachable!("task {id} changes, but does not exist") };
        let (before, round) = (record.phase(), record.round);
        transition::apply(record, event);
        let after = record.phase();
        if is_pushed(after) || record.round != round {
            record.pushes += 1;
            self.effects.push_back(Effect::Push(Box::new(record.clone())));
        }
        if is_stored(after) {
            self.effects.push_back(Effect::Record(Record::Put(Box::new(record.clone()))));
        }
        self.counts[before as usize] -= 1;
        if before == Phase::Waiting {
            self.waiting.remove(&id);
        }
        self.note_phase(id, after);
    }

    /// Changes what is known of a task beside its phase.
    pub(super) fn update(&mut self, id: TaskId, change: impl FnOnce(&mut TaskRecord)) {
        let Some(record) = self.records.get_mut(&id) else { unreachable!("task {id} changes, but does not exist") };
        let before = record.phase();
        change(record);
        debug_assert_eq!(before, record.phase(), "only `change` moves task {id}");
        self.effects.push_back(Effect::Record(Record::Put(Box::new(record.clone()))));
    }

    /// Forgets a task.
    pub(super) fn remove(&mut self, id: TaskId) -> Option<TaskRecord> {
        let record = self.records.remove(&id)?;
        self.waiting.remove(&id);
        self.counts[record.phase() as usize] -= 1;
        if let Some(given_id) = self.given_ids.remove(&id) {
            self.by_given_id.remove(&(given_id, id));
        }
        self.effects.push_back(Effect::Record(Record::Remove(id)));
        Some(record)
    }

    fn note_phase(&mut self, id: TaskId, phase: Phase) {
        self.counts[phase as usize] += 1;
        if phase == Phase::Waiting {
            self.waiting.insert(id);
        }
    }

    pub(super) fn sanity_check(&self) {
        let mut counts = [0; Phase::ALL.len()];
        for record in self.records.values() {
            counts[record.phase() as usize] += 1;
            assert_eq!(
                record.phase() == Phase::Waiting,
                self.waiting.contains(&record.id),
                "queue and task {}",
                record.id
            );
        }
        assert_eq!(counts, self.counts, "the counts of the phases have drifted");
        assert_eq!(self.waiting.len(), self.counts[Phase::Waiting as usize], "the queue holds a task that is gone");
        assert_eq!(self.by_given_id.len(), self.given_ids.len(), "the two indexes of given ids differ");
        for (given_id, id) in &self.by_given_id {
            assert!(self.records.contains_key(id), "given id {given_id} leads to the forgotten task {id}");
        }
    }
}

/// Every change from PREPARING on; a return to WAITING is told too, and is known by its new round (design, section 6).
const fn is_pushed(after: Phase) -> bool {
    match after {
        Phase::Waiting | Phase::Dispatched => false,
        Phase::Preparing | Phase::Running | Phase::Ended | Phase::Finished => true,
    }
}

/// PREPARING and RUNNING are not stored: the agent says them again when it comes back.
const fn is_stored(after: Phase) -> bool {
    match after {
        Phase::Waiting | Phase::Dispatched | Phase::Ended | Phase::Finished => true,
        Phase::Preparing | Phase::Running => false,
    }
}
