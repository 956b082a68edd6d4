//! The requests of clients, one file for each.

mod drain;
mod explain;
mod gate;
mod hold;
mod kill;
mod query;
mod retry;
mod submit;

use super::Controller;
use super::effect::{Answer, Ticket};
use crate::protocol::Refusal;
use crate::protocol::reply::Reply;
use crate::protocol::request::{self, Request};
use crate::types::{Now, TaskId, TaskRecord};

impl Controller {
    /// Handles a request of a client.
    pub fn handle_request(&mut self, now: Now, ticket: Ticket, request: Request) -> Answer {
        let answer = match request {
            Request::Submit(submit) => answer(self.submit(now, *submit)),
            Request::Kill(task, said) => self.kill_request(now, task, said).into(),
            Request::Query(filter, wait) => self.query(now, ticket, filter, wait.map(|wait| now.mono + wait)),
            Request::AgentQuery => Reply::AgentCounts(self.agents.counts()).into(),
            Request::TaskStatistic => Reply::Statistic(self.tasks.counts()).into(),
            Request::TaskDetails(filter, page) => self.list(now, ticket, filter, page),
            Request::AgentDetails(page) => self.list_agents(now, ticket, page),
            Request::Explain(filter) => self.search_to_explain(now, ticket, filter),
            Request::Retry(task) => answer(self.retry(now, task)),
            Request::Hold(task, hold) => answer(self.hold(now, task, hold)),
            Request::AgentDrain(agent, drain) => answer(self.drain(&agent, drain)),
            Request::GateSet(name, change) => answer(self.set_gate(now, &name, &change)),
            Request::GateQuery(Some(name)) => self.query_gate(now, &name).into(),
            Request::GateQuery(None) => self.list_gates(now, ticket),
        };
        self.settle(now);
        answer
    }

    fn known(&self, task: TaskId) -> Result<&TaskRecord, Refusal> {
        self.tasks.get(task).ok_or_else(|| request::no_such_task(&task.to_string()))
    }

    pub(in crate::engine::controller) fn page_limit(&self, limit: Option<usize>) -> usize {
        limit.unwrap_or(usize::MAX).min(self.settings.page_max)
    }
}

fn answer(outcome: Result<Reply, Refusal>) -> Answer {
    outcome.unwrap_or_else(Reply::Refused).into()
}
