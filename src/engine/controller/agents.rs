//! The registry of agents: who is free, parked, busy or lost. Which task an agent gets is [`super::assign`]'s concern.

use std::collections::{BTreeMap, BTreeSet};

use super::effect::Ticket;
use crate::protocol::reply::{AgentCounts, AgentState, AgentView};
use crate::types::{AgentId, Labels, Mono, Now, Round, Session, TaskId, Wall};

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
    /// The run that it got last, until it has reported the end of it or asks for another one.
    pub(super) given: Option<(TaskId, Round)>,
    /// Whether it has ever waited for a task or had one.
    has_worked: bool,
    /// Its place among those that make room for others.
    dispensable: Option<(Dispensable, u64)>,
    pub(super) heard: Mono,
    pub(super) heard_wall: Wall,
    pub(super) ip: Option<String>,
    /// What it has: `AGENT_TAGS`.
    pub(super) tags: Labels,
    /// Whether it shall get no more tasks.
    pub(super) drained: bool,
}

/// Why an agent may be forgotten when there is no room for another one: whatever it says next makes it known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Dispensable {
    /// It is lost.
    Lost,
    /// It has never waited for a task or had one: perhaps it is nothing but a name.
    Idle,
}

#[derive(Debug, Default)]
pub(super) struct Agents {
    agents: BTreeMap<AgentId, Agent>,
    /// Those that make room for others, in this order; within each reason those first for which it has held longest.
    dispensable: BTreeMap<(Dispensable, u64), AgentId>,
    dispensed: u64,
    /// The parked ones that may get a task, by their tags, longest first. No set is empty.
    parked: BTreeMap<Labels, BTreeSet<(u64, AgentId)>>,
    parkings: u64,
    /// The ones that shall get no more tasks, whether they are here or not.
    drained: BTreeSet<AgentId>,
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
        let agent = Agent {
            life,
            slot: Slot::Free,
            told_again: false,
            given: None,
            has_worked: false,
            dispensable: None,
            heard: now.mono,
            heard_wall: now.wall,
            ip: None,
            tags: Labels::default(),
            drained: self.drained.contains(&id),
        };
        let listed = id.clone();
        let before = self.agents.insert(id, agent);
        assert!(before.is_none(), "an agent is registered over another one");
        self.relist(&listed, |_| {});
    }

    pub(super) fn remove(&mut self, id: &AgentId) {
        self.set_slot(id, Slot::Free);
        if let Some(place) = self.agents.remove(id).and_then(|agent| agent.dispensable) {
            self.dispensable.remove(&place);
        }
    }

    /// The agent that makes room for another one.
    pub(super) fn most_dispensable(&self) -> Option<&AgentId> {
        self.dispensable.values().next()
    }

    /// Notes which run an agent got, or that it has none.
    pub(super) fn set_given(&mut self, id: &AgentId, run: Option<(TaskId, Round)>) {
        if let Some(agent) = self.agents.get_mut(id) {
            agent.given = run;
        }
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

    /// Notes what an agent has.
    pub(super) fn set_tags(&mut self, id: &AgentId, tags: Labels) {
        if self.agents.get(id).is_some_and(|agent| agent.tags != tags) {
            self.relist(id, |agent| agent.tags = tags);
        }
    }

    /// Says whether an agent shall get no more tasks. It may be one that is not here.
    pub(super) fn set_drained(&mut self, id: &AgentId, drained: bool) {
        if drained {
            self.drained.insert(id.clone());
        } else {
            self.drained.remove(id);
        }
        self.relist(id, |agent| agent.drained = drained);
    }

    /// How many agents shall get no more tasks.
    pub(super) fn drained(&self) -> usize {
        self.drained.len()
    }

    /// Changes what decides about the lists in which an agent is.
    fn relist(&mut self, id: &AgentId, change: impl FnOnce(&mut Agent)) {
        let Some(agent) = self.agents.get_mut(id) else { return };
        unlist(&mut self.parked, id, agent);
        change(agent);
        list(&mut self.parked, id, agent);
        let reason = why_dispensable(agent);
        if agent.dispensable.map(|(before, _)| before) == reason {
            return;
        }
        if let Some(place) = agent.dispensable.take() {
            self.dispensable.remove(&place);
        }
        if let Some(reason) = reason {
            self.dispensed += 1;
            agent.dispensable = Some((reason, self.dispensed));
            self.dispensable.insert((reason, self.dispensed), id.clone());
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
        self.relist(id, |agent| {
            agent.told_again = false;
            agent.has_worked |= matches!(slot, Slot::Parked(..) | Slot::Busy(_));
            agent.slot = slot;
        });
    }

    /// Whether an agent waits for a task.
    pub(super) fn any_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    /// The parked agent that a task which requires these tags gets: of those with the fewest tags, the one that has been
    /// parked longest, so that special agents stay free for the tasks that need them.
    pub(super) fn parked_with(&self, tags: &Labels) -> Option<&AgentId> {
        let suits = |(has, parked): (&Labels, &BTreeSet<(u64, AgentId)>)| {
            tags.are_within(has).then(|| parked.first().map(|(number, _)| (has.len(), *number))).flatten()
        };
        let (_, number) = self.parked.iter().filter_map(suits).min()?;
        let first = self.parked.values().filter_map(BTreeSet::first);
        first.into_iter().find(|(parked, _)| *parked == number).map(|(_, id)| id)
    }

    /// Whether there is an agent, lost or not, that has these tags and may get tasks.
    pub(super) fn any_with(&self, tags: &Labels) -> bool {
        self.agents.values().any(|agent| !agent.drained && agent.slot != Slot::Lost && tags.are_within(&agent.tags))
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
            tags: agent.tags.clone(),
            drained: agent.drained,
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
        let mut listed = 0;
        for (tags, parked) in &self.parked {
            assert!(!parked.is_empty(), "the list of parked agents with {tags:?} is empty");
            for (number, id) in parked {
                listed += 1;
                let agent = self.get(id).unwrap_or_else(|| panic!("{id} is listed as parked and gone"));
                let rightly = matches!(agent.slot, Slot::Parked(_, n) if n == *number) && agent.tags == *tags;
                assert!(rightly && !agent.drained, "{id} is listed as parked");
            }
        }
        let parked = |agent: &&Agent| matches!(agent.slot, Slot::Parked(..)) && !agent.drained;
        assert_eq!(self.agents.values().filter(parked).count(), listed, "the list of parked agents has drifted");
        for (place, id) in &self.dispensable {
            let agent = self.get(id).unwrap_or_else(|| panic!("{id} makes room and is gone"));
            let rightly = matches!(agent.slot, Slot::Lost | Slot::Free);
            assert!(rightly && agent.dispensable == Some(*place), "{id} makes room although it is {:?}", agent.slot);
        }
        for (id, agent) in &self.agents {
            let is_listed = agent.dispensable.is_some_and(|place| self.dispensable.contains_key(&place));
            assert!(is_listed || agent.slot != Slot::Lost, "the lost agent {id} makes no room");
            assert_eq!(agent.drained, self.drained.contains(id), "whether {id} is drained");
        }
    }
}

fn list(parked: &mut BTreeMap<Labels, BTreeSet<(u64, AgentId)>>, id: &AgentId, agent: &Agent) {
    if let (Slot::Parked(_, number), false) = (agent.slot, agent.drained) {
        // Agents come and go with each task: the tags are copied only for the first one that has them.
        match parked.get_mut(&agent.tags) {
            Some(with_these) => with_these.insert((number, id.clone())),
            None => parked.entry(agent.tags.clone()).or_default().insert((number, id.clone())),
        };
    }
}

fn unlist(parked: &mut BTreeMap<Labels, BTreeSet<(u64, AgentId)>>, id: &AgentId, agent: &Agent) {
    let (Slot::Parked(_, number), false) = (agent.slot, agent.drained) else { return };
    let Some(with_these) = parked.get_mut(&agent.tags) else { return };
    with_these.remove(&(number, id.clone()));
    if with_these.is_empty() {
        parked.remove(&agent.tags);
    }
}

const fn why_dispensable(agent: &Agent) -> Option<Dispensable> {
    match agent.slot {
        Slot::Lost => Some(Dispensable::Lost),
        Slot::Free if !agent.has_worked => Some(Dispensable::Idle),
        Slot::Free | Slot::Parked(..) | Slot::Busy(_) | Slot::Stray => None,
    }
}

const fn state(slot: Slot) -> AgentState {
    match slot {
        Slot::Free | Slot::Parked(..) => AgentState::Free,
        Slot::Busy(_) | Slot::Stray => AgentState::Busy,
        Slot::Lost => AgentState::Lost,
    }
}
