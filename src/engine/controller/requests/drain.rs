//! AGENT/DRAIN: an agent gets no more tasks, or gets some again.

use super::{Code, Controller, Effect, Record, Refusal, Reply};
use crate::types::AgentId;

impl Controller {
    /// An agent shall get no more tasks, or may again. It need not be here: an agent that is restarted keeps its name.
    pub(super) fn drain(&mut self, agent: &AgentId, drain: bool) -> Result<Reply, Refusal> {
        if drain && self.agents.drained() >= self.settings.agents_max {
            let max = self.settings.agents_max;
            let message = format!("{max} agents are drained already (AGENTS_MAX); let some of them have tasks again");
            return Err(Refusal::new(Code::LimitReached, message));
        }
        self.agents.set_drained(agent, drain);
        self.tasks.effects.push_back(Effect::Record(Record::Drained(agent.clone(), drain)));
        Ok(Reply::Done)
    }
}
