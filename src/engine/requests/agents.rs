//! AGENT/DETAILS: a page of the agents.

use super::{Answer, Controller, Filter, Goal, Page, Ticket};
use base::Now;

impl Controller {
    pub(super) fn list_agents(&mut self, now: Now, ticket: Ticket, page: Page) -> Answer {
        let goal = Goal::Agents { page, limit: self.page_limit(page.limit) };
        self.search(now, ticket, Filter::default(), goal)
    }
}
