//! TASK/EXPLAIN: why a task stands where it does.

use crate::engine::controller::Controller;
use crate::protocol::Refusal;
use crate::protocol::reply::Reply;
use crate::protocol::request;
use crate::protocol::task::Filter;
use crate::types::{Holdup, Needs, Now, Phase, TaskId, ToolName};

impl Controller {
    /// Why a task stands where it does.
    pub(in crate::engine::controller) fn explain(
        &self,
        now: Now,
        filter: &Filter,
        found: Option<TaskId>,
    ) -> Result<Reply, Refusal> {
        let found = found.and_then(|task| self.tasks.get(task));
        let Some(record) = found else { return Err(request::no_such_task(&filter.shown_id())) };
        let sets = self.tasks.queue().sets();
        let agents_with = |needs: &Needs, tool: Option<&ToolName>| {
            self.agents.any_with(needs, |set| tool.is_none_or(|tool| sets.has(set, tool)))
        };
        let waits = record.phase() == Phase::Waiting;
        let lease = self.expiring.get(&record.id).map(|run| Holdup::Lease(now.wall + run.until.since(now.mono)));
        let holdup = waits.then(|| self.tasks.queue().holdup(now, record, &agents_with)).or(lease);
        Ok(Reply::Explained { record: Box::new(record.clone()), holdup })
    }
}
