//! AGENT/DETAILS: a page of the agents.

use crate::engine::controller::Controller;
use crate::engine::controller::effect::{Answer, Ticket};
use crate::engine::controller::scan::Goal;
use crate::protocol::page::Page;
use crate::protocol::task::Filter;
use crate::types::Now;

impl Controller {
    pub(super) fn list_agents(&mut self, now: Now, ticket: Ticket, page: Page) -> Answer {
        let goal = Goal::Agents { page, limit: self.page_limit(page.limit) };
        self.search(now, ticket, Filter::default(), goal)
    }
}
