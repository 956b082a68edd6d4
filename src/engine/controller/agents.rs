//! The registry of agents: who is free, parked, busy or lost. Which task an agent gets is [`super::assign`]'s concern.

use std::collections::{BTreeMap, BTreeSet};

use super::effect::Ticket;
use crate::protocol::reply::{AgentCounts, AgentState, AgentView};
use crate::types::{AgentId, Mono, Now, Session, TaskId, Wall};

/// What an agent is doing.
///
/// | from | to | when |
/// |---|---|---|
/// | - | Free | any message of an unknown agent |
/// | Free, Lost | Parked | APPLY that may wait, and no task waits |
/// | Free, Parked | Busy | it gets a task |
/// | Busy | Free | its task has finished or is void |
/// | Free | Stray | it says that it has a run that nobody wants any more |
/// | Stray | Free | it says that its slot is free |
/// | any | Lost | silent for two intervals |
/// | Lost | Free, Stray | heard again |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Free,
    /// Waits for a task; the answer to this request will be one. The number says who has waited longest.
    Parked(Ticket, u64),
    Busy(TaskId),
    Stray,
    Lost,
}

/// What is known of the process behind an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Its task was stored by a former controller; it has not been heard since.
    Stored,
    /// Heard since then, but not of that task.
    Returned(Mono),
    /// This life of it speaks.
    Session(Session),
}

#[derive(Clone, Debug)]
pub(super) struct Agent {
    pub(super) life: Life,
    pub(super) slot: Slot,
    /// Whether it was told more than once of the task that it has.
    pub(super) told_again: bool,
    pub(super) heard: Mono,
    pub(super) heard_wall: Wall,
    pub(super) ip: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Agents {
    agents: BTreeMap<AgentId, Agent>,
    /// The parked ones, longest first.
    parked: BTreeSet<(u64, AgentId)>,
    parkings: u64,
}

impl Agents {
    pub(super) fn get(&self, id: &AgentId) -> Option<&Agent> {
        self.agents.get(id)
    }

    pub(super) fn slot(&self, id: &AgentId) -> Option<Slot> {
        self.get(id).map(|agent| agent.slot)
    }

    pub(super) fn len(&self) -> usize {
        self.agents.len()
    }

    pub(super) fn register(&mut self, now: Now, id: AgentId, life: Life) {
        let agent =
            Agent { life, slot: Slot::Free, told_again: false, heard: now.mono, heard_wall: now.wall, ip: None };
        let before = self.agents.insert(id, agent);
        assert!(before.is_none(), "an agent is registered over another one");
    }

    pub(super) fn remove(&mut self, id: &AgentId) {
        self.set_slot(id, Slot::Free);
        self.agents.remove(id);
    }

    /// Notes a sign of life.
    pub(super) fn hear(&mut self, now: Now, id: &AgentId) {
        if let Some(agent) = self.agents.get_mut(id) {
            agent.heard = now.mono;
            agent.heard_wall = now.wall;
        }
    }

    /// Notes what has become known of the process behind an id.
    pub(super) fn set_life(&mut self, id: &AgentId, life: Life) {
        if let Some(agent) = self.agents.get_mut(id) {
            agent.life = life;
        }
    }

    pub(super) fn set_ip(&mut self, id: &AgentId, ip: Option<String>) {
        if let Some(agent) = self.agents.get_mut(id) {
            agent.ip = ip;
        }
    }

    /// Notes that an agent was told again of the task that it has.
    pub(super) fn tell_again(&mut self, id: &AgentId) {
        if let Some(agent) = self.agents.get_mut(id) {
            agent.told_again = true;
        }
    }

    /// Makes an agent wait for a task.
    pub(super) fn park(&mut self, id: &AgentId, ticket: Ticket) {
        self.parkings += 1;
        self.set_slot(id, Slot::Parked(ticket, self.parkings));
    }

    /// The one place where a slot changes; keeps the list of the parked ones right.
    pub(super) fn set_slot(&mut self, id: &AgentId, slot: Slot) {
        let Some(agent) = self.agents.get_mut(id) else { return };
        agent.told_again = false;
        if let Slot::Parked(_, number) = std::mem::replace(&mut agent.slot, slot) {
            self.parked.remove(&(number, id.clone()));
        }
        if let Slot::Parked(_, number) = slot {
            self.parked.insert((number, id.clone()));
        }
    }

    /// The agent that has been parked longest.
    pub(super) fn longest_parked(&self) -> Option<&AgentId> {
        self.parked.first().map(|(_, id)| id)
    }

    /// Document, section 2.4. Looks at every agent: an operator asks for it, no task does.
    pub(super) fn counts(&self) -> AgentCounts {
        let mut counts = AgentCounts { total: self.agents.len(), ..AgentCounts::default() };
        for agent in self.agents.values() {
            match state(agent.slot) {
                AgentState::Free => counts.free += 1,
                AgentState::Busy => counts.busy += 1,
                AgentState::Lost => counts.lost += 1,
            }
        }
        counts
    }

    /// Some agents, in the order of their ids.
    pub(super) fn page(&self, offset: usize, limit: usize) -> Vec<AgentView> {
        let view = |(id, agent): (&AgentId, &Agent)| AgentView {
            id: id.clone(),
            state: state(agent.slot),
            task: if let Slot::Busy(task) = agent.slot { Some(task) } else { None },
            ip: agent.ip.clone(),
            heard: agent.heard_wall,
        };
        self.agents.iter().skip(offset).take(limit).map(view).collect()
    }

    /// All agents that have a task, with it.
    pub(super) fn busy(&self) -> impl Iterator<Item = (&AgentId, TaskId)> {
        self.agents.iter().filter_map(|(id, agent)| match agent.slot {
            Slot::Busy(task) => Some((id, task)),
            Slot::Free | Slot::Parked(..) | Slot::Stray | Slot::Lost => None,
        })
    }

    pub(super) fn parked_tickets(&self) -> impl Iterator<Item = (&AgentId, Ticket)> {
        self.agents.iter().filter_map(|(id, agent)| match agent.slot {
            Slot::Parked(ticket, _) => Some((id, ticket)),
            Slot::Free | Slot::Busy(_) | Slot::Stray | Slot::Lost => None,
        })
    }

    pub(super) fn sanity_check(&self) {
        let parked = self.parked_tickets().count();
        assert_eq!(parked, self.parked.len(), "the list of parked agents has drifted");
        for (number, id) in &self.parked {
            assert!(matches!(self.slot(id), Some(Slot::Parked(_, n)) if n == *number), "{id} is listed as parked");
        }
    }
}

const fn state(slot: Slot) -> AgentState {
    match slot {
        Slot::Free | Slot::Parked(..) => AgentState::Free,
        Slot::Busy(_) | Slot::Stray => AgentState::Busy,
        Slot::Lost => AgentState::Lost,
    }
}
