//! AGENT/DRAIN: an agent gets no more tasks, or gets tasks again.

use super::{Code, Controller, Record, Refusal, Reply};
use api::wire::requests::drain::Drain;
use base::{AgentId, nearest_hint, words};

impl Controller {
    /// Drains an agent, or reverses that. It need not be present, because an agent that is restarted keeps its name. But a name
    /// that no agent has had here is taken for a slip, unless the sender says otherwise.
    pub(super) fn drain(&mut self, agent: &AgentId, order: Drain) -> Result<Reply, Refusal> {
        if order != Drain::Ahead && !self.fleet.drained.contains(agent) && self.fleet.get(agent).is_none() {
            let hint = nearest_hint(agent.as_str(), self.fleet.names().map(AgentId::as_str));
            let way = match order {
                Drain::Undo => String::new(),
                Drain::Begin | Drain::Ahead => {
                    format!("; for one that has not come yet, add --ahead ({} true)", words::AHEAD)
                }
            };
            let message = format!("no agent has the name {agent}{hint}; `llts agents` lists them{way}");
            return Err(Refusal::new(Code::BadField, message));
        }
        let drain = order != Drain::Undo;
        if drain && self.fleet.drained.len() >= self.settings.agents_max {
            let max = self.settings.agents_max;
            let message = format!(
                "{max} agents are paused already (AGENTS_MAX); `llts resume --agent` for some of them makes room"
            );
            return Err(Refusal::new(Code::LimitReached, message));
        }
        self.fleet.set_drained(agent, drain);
        self.turn.store(Record::Drained(agent.clone(), drain));
        Ok(Reply::Done)
    }
}
