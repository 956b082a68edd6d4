//! TASK/STATISTIC and AGENT/QUERY: the numbers of tasks and agents.

use super::{Controller, Reply};
use api::wire::requests::stats::TaskCounts;

impl Controller {
    pub(super) fn count_tasks(&self) -> Reply {
        Reply::Statistic(TaskCounts(self.tasks.counts()), self.paused_until())
    }

    pub(super) const fn count_agents(&self) -> Reply {
        Reply::AgentCounts(self.fleet.counts())
    }
}
