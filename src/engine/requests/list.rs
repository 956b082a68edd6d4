//! TASK/DETAILS: a page of the matching tasks, and their total number.

use super::{Answer, Controller, Filter, Goal, Page, Ticket};
use base::Now;

impl Controller {
    pub(super) fn list(&mut self, now: Now, ticket: Ticket, filter: Filter, page: Page) -> Answer {
        let limit = self.page_limit(page.limit);
        self.search(now, ticket, filter, Goal::Page { page, limit, records: Vec::new() })
    }
}
