//! TASK/ROWS: a page of the matching tasks as rows, in an order, with the numbers of all of them by their states.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Answer, Controller, Filter, Goal, Page, Reply, Ticket};
use crate::protocol::page::PageOf;
use crate::protocol::requests::history::SortKey;
use crate::protocol::requests::rows::{Order, RowsPage, TaskRow};
use crate::types::{Now, Phase, ShownState, StateCounts, TaskId, TaskRecord};

/// Tasks before a waiting one that a row counts. A reader of a table wants to know whether there are many.
const BEFORE_MAX: usize = 100;

/// The rows found up to now: the first ones in their order, of which none is larger than the page needs.
#[derive(Debug)]
pub(in crate::engine::controller) struct FoundRows {
    now: Now,
    order: Order,
    page: Page,
    /// Rows before and on the page.
    len_max: usize,
    /// By the key of the order, and within it the newest first.
    first: BTreeSet<(u64, u64, TaskId)>,
    states: StateCounts,
}

impl FoundRows {
    /// Whether no older task can come onto the page.
    pub(in crate::engine::controller) fn is_full(&self) -> bool {
        let is_by_age = self.order == Order { by: SortKey::Submitted, is_reversed: false };
        is_by_age && self.first.len() >= self.len_max
    }

    /// A task matches.
    pub(in crate::engine::controller) fn take(&mut self, record: &TaskRecord) {
        self.states.add(ShownState::of(record));
        let key = key(self.now, self.order.by, record);
        let key = if self.order.is_reversed { key } else { u64::MAX - key };
        self.first.insert((key, u64::MAX - record.id.wall().micros(), record.id));
        if self.first.len() > self.len_max {
            self.first.pop_last();
        }
    }
}

/// What an order compares. Running tasks are compared by their run time up to now, and waiting ones by their wait.
fn key(now: Now, by: SortKey, record: &TaskRecord) -> u64 {
    let run = record.last_run();
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let ended = match record.state {
        crate::types::TaskState::Finished { at, .. } => Some(at),
        _ => None,
    };
    match by {
        SortKey::Submitted => record.submitted_at.micros(),
        // A task that has not ended ends later than all others.
        SortKey::Ended => ended.map_or(u64::MAX, |at| at.micros()),
        SortKey::Ran => {
            let ran = run.and_then(|run| run.times.end.or(ended).unwrap_or(now.wall).since(run.times.run?).into());
            micros(ran.unwrap_or_default())
        }
        SortKey::Waited => {
            let until = run.map(|run| run.dispatched_at).or(ended).unwrap_or(now.wall);
            micros(until.since(record.submitted_at))
        }
    }
}

impl Controller {
    pub(super) fn list_rows(&mut self, now: Now, ticket: Ticket, filter: Filter, order: Order, page: Page) -> Answer {
        let len_max = page.offset.saturating_add(self.page_limit(page.limit));
        let (first, states) = (BTreeSet::new(), StateCounts::default());
        self.search(now, ticket, filter, Goal::Rows(FoundRows { now, order, page, len_max, first, states }))
    }

    /// The answer of a search for rows.
    pub(in crate::engine::controller) fn page_of_rows(
        &self,
        now: Now,
        filter: &Filter,
        found: FoundRows,
        matches: usize,
    ) -> Reply {
        let Page { offset, limit: asked } = found.page;
        // A search without a filter ends with the page.
        let (total, states) =
            if filter.is_empty() { (self.tasks.len(), self.tasks.figures().states()) } else { (matches, found.states) };
        let ids = found.first.into_iter().skip(offset).map(|(.., id)| id);
        let rows = ids.filter_map(|id| self.tasks.get(id)).map(|record| self.row(now, record)).collect();
        let page = PageOf { offset, asked, total };
        Reply::Rows(Box::new(RowsPage { rows, states, now: now.wall, page }))
    }

    /// A task with what holds it up, and how long it usually runs.
    pub(super) fn row(&self, now: Now, record: &TaskRecord) -> TaskRow {
        let waits = record.shown_phase() < Phase::Running;
        let holdup = waits.then(|| self.holdup(now, record, BEFORE_MAX)).flatten();
        TaskRow { record: record.clone(), holdup, usual: self.tasks.usual(record) }
    }
}
