//! TASK/ROWS: a page of the matching tasks as rows, in an order, with the numbers of all of them by their states.

use super::{Answer, Controller, Filter, Goal, Page, Reply, Ticket};
use crate::readers::found_rows::FoundRows;
use api::wire::Narrowing;
use api::wire::page::PageOf;
use api::wire::requests::rows::{Order, RowsPage, TaskRow};
use base::{Now, Phase, TaskRecord};

/// Maximum number of tasks before a waiting one that a row counts. A reader of a table wants to know whether there are many.
const BEFORE_MAX: usize = 100;

impl Controller {
    pub(super) fn list_rows(
        &mut self,
        now: Now,
        ticket: Ticket,
        filter: Filter,
        wanted: (Narrowing, Order),
        page: Page,
    ) -> Answer {
        let len_max = page.offset.saturating_add(self.page_limit(page.limit));
        self.search(now, ticket, filter, Goal::Rows(FoundRows::new(now, wanted, page, len_max)))
    }

    /// The answer of a search for rows.
    pub(crate) fn page_of_rows(&self, now: Now, filter: &Filter, found: &FoundRows, matches: usize) -> Reply {
        let Page { offset, limit: asked } = found.page;
        // A search for all tasks ends with the page.
        let has_all = filter.is_empty() && found.has_all();
        let (total, states) =
            if has_all { (self.tasks.len(), self.tasks.figures.states()) } else { (matches, found.states) };
        let rows =
            found.ids().into_iter().filter_map(|id| self.tasks.get(id)).map(|record| self.row(now, record)).collect();
        Reply::Rows(Box::new(RowsPage { rows, states, now: now.wall, page: PageOf { offset, asked, total } }))
    }

    /// A task with what holds it up, and how long it usually runs.
    pub(super) fn row(&self, now: Now, record: &TaskRecord) -> TaskRow {
        let waits = record.shown_phase() < Phase::Running;
        let holdup = waits.then(|| self.holdup(now, record, BEFORE_MAX)).flatten();
        TaskRow { record: record.clone(), holdup, usual: self.tasks.usual(&self.relations, record) }
    }
}
