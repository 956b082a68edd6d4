//! The rows that a search for a table has found, in the requested order.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::relations::Relations;
use crate::tasks::Tasks;
use api::wire::Narrowing;
use api::wire::page::Page;
use api::wire::requests::history::SortKey;
use api::wire::requests::rows::Order;
use base::{Now, ShownState, StateCounts, TaskId, TaskRecord, Wall};

/// The rows found up to now: the first ones in their order, and no more than the page needs.
#[derive(Debug)]
pub(crate) struct FoundRows {
    now: Now,
    narrowing: Narrowing,
    order: Order,
    pub(crate) page: Page,
    /// Rows before and on the page.
    len_max: usize,
    /// By the key of the order, the smallest first; equal ones by their ids.
    first: BTreeSet<(u64, TaskId)>,
    pub(crate) states: StateCounts,
}

impl FoundRows {
    /// An empty result, for at most this number of rows before and on the page.
    pub(crate) fn new(now: Now, (narrowing, order): (Narrowing, Order), page: Page, len_max: usize) -> Self {
        Self { now, narrowing, order, page, len_max, first: BTreeSet::new(), states: StateCounts::NONE }
    }

    /// Whether the result leaves out no task.
    pub(crate) fn has_all(&self) -> bool {
        self.narrowing.is_empty()
    }

    /// The bytes of a task that have to be read.
    pub(crate) fn searched_bytes(&self, record: &TaskRecord) -> usize {
        self.narrowing.searched_bytes(record)
    }

    /// Whether a task is one of the rows.
    pub(crate) fn admits(&self, tasks: &Tasks, relations: &Relations, record: &TaskRecord) -> bool {
        self.narrowing.admits(record) && (!self.narrowing.runs_longer || tasks.runs_longer(relations, self.now, record))
    }

    /// The tasks of the page, in their order.
    pub(crate) fn ids(&self) -> Vec<TaskId> {
        let mut ids: Vec<TaskId> = self.first.iter().map(|(_, id)| *id).collect();
        if !self.order.is_reversed {
            ids.reverse();
        }
        ids.split_off(self.page.offset.min(ids.len()))
    }

    /// Whether no older task can come onto the page.
    pub(crate) fn is_full(&self) -> bool {
        let is_by_age = self.order == Order { by: SortKey::Submitted, is_reversed: false };
        is_by_age && self.has_all() && self.first.len() >= self.len_max
    }

    /// A task matches.
    pub(crate) fn take(&mut self, record: &TaskRecord) {
        self.states.add(ShownState::of(record));
        self.first.insert((key(self.now, self.order.by, record), record.id));
        if self.first.len() > self.len_max {
            if self.order.is_reversed {
                self.first.pop_last()
            } else {
                self.first.pop_first()
            };
        }
    }
}

/// The number by which an order compares tasks: for a running task its run time up to now, for a waiting one its wait up to now.
fn key(now: Now, by: SortKey, record: &TaskRecord) -> u64 {
    let run = record.last_run();
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let ended = record.finished_at();
    match by {
        SortKey::Submitted => record.submitted_at.micros(),
        // A task that has not ended ends later than all others.
        SortKey::Ended => ended.map_or(u64::MAX, Wall::micros),
        SortKey::Ran => micros(record.ran(now.wall).unwrap_or_default()),
        SortKey::Waited => {
            let until = run.map(|run| run.dispatched_at).or(ended).unwrap_or(now.wall);
            micros(until.since(record.submitted_at))
        }
    }
}
