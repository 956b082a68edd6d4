//! Whether a service has nothing to do, so that it may end by itself.

use crate::Controller;
use crate::fleet::agent::state;
use api::wire::requests::agents::AgentState;
use base::{AgentId, Phase};

impl Controller {
    /// Whether nothing is left to do: every task and graph has ended, and every end that awaits a confirmation has got it. An agent
    /// that does not belong to the service itself, as `is_own` tells, keeps the service going unless it is lost, because it may be
    /// there for tasks to come.
    ///
    /// Gates, drained agents and held jobs are stored, so they do not keep a service from ending.
    #[must_use]
    pub fn is_idle(&self, is_own: impl Fn(&AgentId) -> bool) -> bool {
        let unfinished: usize = Phase::ALL
            .iter()
            .zip(self.tasks.counts())
            .filter_map(|(phase, count)| (*phase != Phase::Finished).then_some(count))
            .sum();
        unfinished == 0
            && self.graphs.bytes() == 0
            && self.tasks.awaited.is_empty()
            && self.fleet.expiring.is_empty()
            && !self.has_postponed()
            && self.relations.backlog.is_empty()
            && !self.fleet.iter().any(|(id, agent)| !is_own(id) && state(agent.slot) != AgentState::Lost)
    }
}
