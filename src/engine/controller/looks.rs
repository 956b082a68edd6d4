//! Looking for tools that no agent has, as far as is known: before a task ends for the lack of its tool, every agent that is here has
//! looked into its folder since the task began to wait for it.
//!
//! | a look | when |
//! |---|---|
//! | begins | a task waits whose tool no agent has, and no look is under way: one look is for all of them |
//! | is asked for | by a broadcast, which busy agents hear too, and again with each answer to a heartbeat |
//! | goes on | until each agent that can be asked and is here has said that it has looked |
//! | is over at once | where no agent can be asked, or only one agent is here: the one that gets the task looks anyway |
//! | is given up | after two heartbeat intervals |
//!
//! A look is a `stat` of a folder and a heartbeat for each agent. Tasks that come while one is under way wait for the next one,
//! so there is never more than one at a time, however many tasks name a tool that is nowhere.

use std::collections::BTreeSet;

use super::Controller;
use super::effect::{Effect, Timer};
use crate::protocol::publish::Published;
use crate::types::{AgentId, Now};

/// The look that is under way, or was the last one.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// Another one for each look, and in each life of the controller.
    number: u64,
    is_under_way: bool,
    /// Whether agents have been asked for it.
    is_asked_for: bool,
    /// The agents that have not answered yet.
    awaited: BTreeSet<AgentId>,
}

impl Looks {
    pub(super) fn numbered_from(number: u64) -> Self {
        Self { number, ..Self::default() }
    }
}

impl Controller {
    /// Ends the look that is under way as soon as all have answered, and begins the next one if there is a reason.
    pub(super) fn look_for_tools(&mut self, now: Now) {
        while self.looks.awaited.is_empty() {
            if std::mem::take(&mut self.looks.is_under_way) {
                self.tasks.queue_mut().end_look(now);
                if std::mem::take(&mut self.looks.is_asked_for) {
                    self.timers.clear(&Timer::Look);
                    // Agents that do not park may have asked in vain meanwhile.
                    self.inform();
                }
            }
            if !self.tasks.queue_mut().begin_look() {
                return;
            }
            self.begin_look(now);
        }
    }

    fn begin_look(&mut self, now: Now) {
        self.looks.number += 1;
        self.looks.is_under_way = true;
        let counts = self.agents.counts();
        if counts.total - counts.lost > 1 {
            self.looks.awaited = self.agents.that_look().cloned().collect();
        }
        self.looks.is_asked_for = !self.looks.awaited.is_empty();
        if self.looks.is_asked_for {
            self.timers.set(Timer::Look, now.mono + self.silence_max());
            self.tasks.effects.push_back(Effect::Publish(Published::Look(self.looks.number)));
        }
    }

    /// An agent says which look it was asked for last; `None` of one that cannot be asked.
    pub(super) fn has_looked(&mut self, id: &AgentId, looked: Option<u64>) {
        self.agents.set_looks(id, looked.is_some());
        if looked.is_none() || looked == Some(self.looks.number) {
            self.looks.awaited.remove(id);
        } else {
            self.await_look(id);
        }
    }

    /// An agent is here while a look is under way.
    pub(super) fn await_look(&mut self, id: &AgentId) {
        let is_asked = !self.looks.awaited.is_empty() && self.agents.get(id).is_some_and(|agent| agent.looks);
        if is_asked {
            self.looks.awaited.insert(id.clone());
        }
    }

    /// An agent is here no more.
    pub(super) fn forget_look(&mut self, id: &AgentId) {
        self.looks.awaited.remove(id);
    }

    /// The look that an agent is to answer, for the answer to its heartbeat.
    pub(super) fn look_of(&self, id: &AgentId) -> Option<u64> {
        self.looks.awaited.contains(id).then_some(self.looks.number)
    }

    /// An agent that has not answered yet.
    pub(super) fn first_awaited(&self) -> Option<&AgentId> {
        self.looks.awaited.first()
    }

    /// Agents that are heard have not answered in time.
    pub(super) fn give_up_look(&mut self) {
        for agent in std::mem::take(&mut self.looks.awaited) {
            log::warn!("agent {agent} has not looked for tools in time");
        }
    }
}
