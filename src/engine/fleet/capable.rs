//! Which agents could run a task.

use super::Fleet;
use super::agent::{Agent, Slot};
use crate::queue::tool_sets::SetId;
use base::{AgentId, Requirements};

impl Fleet {
    /// Whether any agent is not lost, may get tasks, meets these requirements and has the tool according to `has`.
    pub(crate) fn any_with(&self, needs: &Requirements, has: impl Fn(SetId) -> bool) -> bool {
        self.all_with(needs, has).next().is_some()
    }

    /// The agents that are not lost, may get tasks, meet these requirements and have the tool according to `has`.
    pub(crate) fn all_with(
        &self,
        needs: &Requirements,
        has: impl Fn(SetId) -> bool,
    ) -> impl Iterator<Item = (&AgentId, &Agent)> {
        self.all_drained_or_with(needs, has).filter(|(_, agent)| !agent.drained)
    }

    /// Like [`Self::all_with`], but with the agents that are drained.
    pub(crate) fn all_drained_or_with(
        &self,
        needs: &Requirements,
        has: impl Fn(SetId) -> bool,
    ) -> impl Iterator<Item = (&AgentId, &Agent)> {
        self.agents.iter().filter(move |(id, agent)| agent.slot != Slot::Lost && agent.can_run(id, needs, &has))
    }

    /// The tool set of every agent with a known one, and whether the agent is present.
    pub(crate) fn tools(&self) -> impl Iterator<Item = (SetId, bool)> {
        self.agents.values().filter_map(|agent| Some((agent.tools?.set, agent.slot != Slot::Lost)))
    }
}
