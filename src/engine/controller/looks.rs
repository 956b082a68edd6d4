//! Looks for tools that no agent is known to have: before a task ends for lack of its tool, every present agent has looked
//! into its folder since the task began to wait for it.
//!
//! | a look | when |
//! |---|---|
//! | begins | a task or a submit ([`super::sought`]) waits whose tool no agent has, and no look is under way: one look serves all of them |
//! | is requested | by a broadcast, which busy agents receive too, and again with each answer to a heartbeat |
//! | continues | until each present agent that can be asked has reported that it has looked |
//! | ends at once | if no agent can be asked, or only one agent is present and no submit waits: it looks anyway when it gets the task |
//! | is given up | after two heartbeat intervals; by a submit, whose client waits for its answer, after a second |
//!
//! A look costs a `stat` of a folder and a heartbeat for each agent. Tasks that come while a look is under way wait for the
//! next one, so there is at most one at a time, however many tasks name a tool that does not exist.

use std::collections::BTreeSet;

use super::Controller;
use super::effect::{Effect, Timer};
use crate::protocol::publish::Published;
use crate::types::{AgentId, Now};

/// The look that is under way, or the last one.
#[derive(Debug, Default)]
pub(super) struct Looks {
    /// Number of the look; it differs for each look and in each life of the controller.
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

    /// The number of the last look that has begun.
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Controller {
    /// Ends the current look when all have answered, and begins the next one if there is a reason.
    pub(super) fn look_for_tools(&mut self, now: Now) {
        self.submit_found(now);
        while self.looks.awaited.is_empty() {
            if std::mem::take(&mut self.looks.is_under_way) {
                self.tasks.queue_mut().end_look(now);
                if std::mem::take(&mut self.looks.is_asked_for) {
                    self.timers.clear(&Timer::Look);
                    // Agents that do not park may have asked in vain meanwhile.
                    self.inform();
                }
                self.submit_looked_for(now, self.looks.number);
            }
            let is_for_submits = !self.sought.is_empty();
            if !self.tasks.queue_mut().begin_look() && !is_for_submits {
                return;
            }
            self.begin_look(now, is_for_submits);
        }
    }

    fn begin_look(&mut self, now: Now, is_for_submits: bool) {
        self.looks.number += 1;
        self.looks.is_under_way = true;
        let counts = self.agents.counts();
        if is_for_submits || counts.total - counts.lost > 1 {
            self.looks.awaited = self.agents.that_look().cloned().collect();
        }
        self.looks.is_asked_for = !self.looks.awaited.is_empty();
        if self.looks.is_asked_for {
            self.timers.set(Timer::Look, now.mono + self.answer_max());
            self.tasks.effects.push_back(Effect::Publish(Published::Look(self.looks.number)));
        }
    }

    /// An agent reports the last look that it has carried out; `None` if it cannot be asked.
    pub(super) fn has_looked(&mut self, id: &AgentId, looked: Option<u64>) {
        self.agents.set_looks(id, looked.is_some());
        if looked.is_none() || looked == Some(self.looks.number) {
            self.looks.awaited.remove(id);
        } else {
            self.await_look(id);
        }
    }

    /// An agent is present while a look is under way.
    pub(super) fn await_look(&mut self, id: &AgentId) {
        let is_asked = !self.looks.awaited.is_empty() && self.agents.get(id).is_some_and(|agent| agent.looks);
        if is_asked {
            self.looks.awaited.insert(id.clone());
        }
    }

    /// An agent is not present any more.
    pub(super) fn forget_look(&mut self, id: &AgentId) {
        self.looks.awaited.remove(id);
    }

    /// The look that an agent must answer, for the answer to its heartbeat.
    pub(super) fn look_of(&self, id: &AgentId) -> Option<u64> {
        self.looks.awaited.contains(id).then_some(self.looks.number)
    }

    /// An agent that has not answered yet.
    pub(super) fn first_awaited(&self) -> Option<&AgentId> {
        self.looks.awaited.first()
    }

    /// Agents that are in contact have not answered in time.
    pub(super) fn give_up_look(&mut self) {
        for agent in std::mem::take(&mut self.looks.awaited) {
            self.journal.warn(format!("agent {agent} has not looked for tools in time"));
        }
    }
}
