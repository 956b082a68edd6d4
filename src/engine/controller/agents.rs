//! The registry of agents: who is free, parked, busy or lost. Which task an agent gets is [`super::assign`]'s concern.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::effect::{ConnectionId, Ticket};
use super::tool_sets::SetId;
use crate::protocol::reply::{AgentCounts, AgentState, AgentView};
use crate::types::{AgentId, Labels, Mono, Now, Round, Session, TaskId, ToolSet, Wall};

/// What an agent is doing.
///
/// | from | to | when |
/// |---|---|---|
/// | - | Free | any message of an unknown agent |
/// | Free, Lost | Parked | APPLY that may wait, and no task waits |
/// | Free, Parked | Busy | it gets a task |
/// | Busy | Free | its task has finished or is void |
/// | Free | Stray | it says that it has a run that nobody wants any more, or that its slot is not free |
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

impl Life {
    pub(super) fn session(self) -> Session {
        match self {
            Self::Session(session) => session,
            Self::Stored | Self::Returned(_) => Session::default(),
        }
    }
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
    /// Which tools it has, as soon as it has been heard ([`super::tools`]).
    pub(super) tools: Option<Tools>,
    /// Whether it shall get no more tasks.
    pub(super) drained: bool,
    /// By which connection it was parked last.
    connection: Option<ConnectionId>,
    /// What it needs to end a run, as it says.
    pub(super) kill_budget: Option<Duration>,
}

/// The tools of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tools {
    pub(super) set: SetId,
    /// The number that the agent gave to what it has told, if it tells at all.
    pub(super) generation: Option<u64>,
}

/// The agents that wait for a task, longest first: by their tools, then by their tags. No map or set in it is empty.
type Parked = BTreeMap<SetId, BTreeMap<Labels, BTreeSet<(u64, AgentId)>>>;

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
    /// The parked ones that may get a task.
    parked: Parked,
    parkings: u64,
    /// The agents that were parked last by each connection, whether they still are or not.
    by_connection: BTreeMap<ConnectionId, BTreeSet<AgentId>>,
    counts: AgentCounts,
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
            tools: None,
            drained: self.drained.contains(&id),
            connection: None,
            kill_budget: None,
        };
        self.counts.total += 1;
        self.counts.free += 1;
        let listed = id.clone();
        let before = self.agents.insert(id, agent);
        assert!(before.is_none(), "an agent is registered over another one");
        self.relist(&listed, |_| {});
    }

    pub(super) fn remove(&mut self, id: &AgentId) {
        self.set_slot(id, Slot::Free);
        let Some(agent) = self.agents.remove(id) else { return };
        self.counts.total -= 1;
        self.counts.free -= 1;
        if let Some(place) = agent.dispensable {
            self.dispensable.remove(&place);
        }
        if let Some(connection) = agent.connection {
            self.forget_connection(connection, id);
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

    /// Notes what an agent needs to end a run.
    pub(super) fn set_kill_budget(&mut self, id: &AgentId, budget: Option<Duration>) {
        if let Some(agent) = self.agents.get_mut(id) {
            agent.kill_budget = budget;
        }
    }

    /// Notes what an agent has.
    pub(super) fn set_tags(&mut self, id: &AgentId, tags: Labels) {
        if self.agents.get(id).is_some_and(|agent| agent.tags != tags) {
            self.relist(id, |agent| agent.tags = tags);
        }
    }

    /// Notes which tools an agent has.
    pub(super) fn set_tools(&mut self, id: &AgentId, tools: Tools) {
        self.relist(id, |agent| agent.tools = Some(tools));
    }

    /// The set of tools of every agent that has been heard, and whether the agent is here.
    pub(super) fn tools(&self) -> impl Iterator<Item = (SetId, bool)> {
        self.agents.values().filter_map(|agent| Some((agent.tools?.set, agent.slot != Slot::Lost)))
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
        // It changes when the agent connects anew, so that to park costs no change of the index.
        let connection = Some(ticket.connection);
        if let Some(agent) = self.agents.get_mut(id).filter(|agent| agent.connection != connection) {
            if let Some(before) = std::mem::replace(&mut agent.connection, connection) {
                self.forget_connection(before, id);
            }
            self.by_connection.entry(ticket.connection).or_default().insert(id.clone());
        }
    }

    fn forget_connection(&mut self, connection: ConnectionId, id: &AgentId) {
        let Some(agents) = self.by_connection.get_mut(&connection) else { return };
        agents.remove(id);
        if agents.is_empty() {
            self.by_connection.remove(&connection);
        }
    }

    /// The agents that are parked by this connection, with their tickets.
    pub(super) fn parked_by(&self, connection: ConnectionId) -> Vec<(AgentId, Ticket)> {
        let of_it = self.by_connection.get(&connection).into_iter().flatten();
        let parked = |id: &AgentId| match self.slot(id) {
            Some(Slot::Parked(ticket, _)) if ticket.connection == connection => Some((id.clone(), ticket)),
            _ => None,
        };
        of_it.filter_map(parked).collect()
    }

    /// The one place where a slot changes; keeps the list of the parked ones right.
    pub(super) fn set_slot(&mut self, id: &AgentId, slot: Slot) {
        let Some(before) = self.slot(id).map(state) else { return };
        self.relist(id, |agent| {
            agent.told_again = false;
            agent.has_worked |= matches!(slot, Slot::Parked(..) | Slot::Busy(_));
            agent.slot = slot;
        });
        *counted(&mut self.counts, before) -= 1;
        *counted(&mut self.counts, state(slot)) += 1;
    }

    /// Whether an agent waits for a task.
    pub(super) fn any_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    /// The sets of tools that agents which wait have.
    pub(super) fn parked_sets(&self) -> impl Iterator<Item = SetId> {
        self.parked.keys().copied()
    }

    /// The parked agent with these tools that a task which requires these tags gets: of those with the fewest tags, the one that
    /// has been parked longest, so that special agents stay free for the tasks that need them. With how many tags it has, and
    /// its number in the order of the parked ones.
    pub(super) fn parked_with(&self, set: SetId, tags: &Labels) -> Option<(usize, u64, &AgentId)> {
        let suits = |(has, parked): (&Labels, &BTreeSet<(u64, AgentId)>)| {
            tags.are_within(has).then(|| parked.first().map(|(number, _)| (has.len(), *number))).flatten()
        };
        let lists = self.parked.get(&set)?;
        let (count, number) = lists.iter().filter_map(suits).min()?;
        let mut first = lists.values().filter_map(BTreeSet::first);
        first.find(|(parked, _)| *parked == number).map(|(_, id)| (count, number, id))
    }

    /// Whether there is an agent that is not lost, may get tasks, and has these tags and, by `has`, the tool.
    pub(super) fn any_with(&self, tags: &Labels, has: impl Fn(SetId) -> bool) -> bool {
        let suits = |agent: &Agent| {
            let here = !agent.drained && agent.slot != Slot::Lost;
            here && tags.are_within(&agent.tags) && agent.tools.is_none_or(|tools| has(tools.set))
        };
        self.agents.values().any(suits)
    }

    /// Document, section 2.4.
    pub(super) const fn counts(&self) -> AgentCounts {
        self.counts
    }

    /// Some agents, in the order of their ids.
    pub(super) fn page(
        &self,
        offset: usize,
        limit: usize,
        tools: impl Fn(SetId) -> Option<Arc<ToolSet>>,
    ) -> Vec<AgentView> {
        let view = |(id, agent): (&AgentId, &Agent)| AgentView {
            id: id.clone(),
            state: state(agent.slot),
            task: if let Slot::Busy(task) = agent.slot { Some(task) } else { None },
            ip: agent.ip.clone(),
            tags: agent.tags.clone(),
            tools: agent.tools.and_then(|known| tools(known.set)),
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
        assert!(self.parked.values().all(|lists| !lists.is_empty()), "a list of parked agents by tools is empty");
        let lists =
            self.parked.iter().flat_map(|(set, lists)| lists.iter().map(move |(tags, list)| (*set, tags, list)));
        for (set, tags, parked) in lists {
            assert!(!parked.is_empty(), "the list of parked agents with {tags:?} is empty");
            for (number, id) in parked {
                listed += 1;
                let agent = self.get(id).unwrap_or_else(|| panic!("{id} is listed as parked and gone"));
                let rightly = matches!(agent.slot, Slot::Parked(_, n) if n == *number) && agent.tags == *tags;
                let rightly = rightly && agent.tools.is_some_and(|tools| tools.set == set);
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
        let mut counts = AgentCounts { total: self.agents.len(), ..AgentCounts::default() };
        for (id, agent) in &self.agents {
            let is_listed = agent.dispensable.is_some_and(|place| self.dispensable.contains_key(&place));
            assert!(is_listed || agent.slot != Slot::Lost, "the lost agent {id} makes no room");
            assert_eq!(agent.drained, self.drained.contains(id), "whether {id} is drained");
            *counted(&mut counts, state(agent.slot)) += 1;
            let Slot::Parked(ticket, _) = agent.slot else { continue };
            let known = self.by_connection.get(&ticket.connection).is_some_and(|agents| agents.contains(id));
            assert!(known, "{id} is parked by a connection that does not know it");
        }
        assert_eq!(counts, self.counts, "the counts of the agents have drifted");
    }
}

fn list(parked: &mut Parked, id: &AgentId, agent: &Agent) {
    let Some((set, number)) = agent.parked_as() else { return };
    let lists = parked.entry(set).or_default();
    // Agents come and go with each task: the tags are copied only for the first one that has them.
    match lists.get_mut(&agent.tags) {
        Some(with_these) => with_these.insert((number, id.clone())),
        None => lists.entry(agent.tags.clone()).or_default().insert((number, id.clone())),
    };
}

fn unlist(parked: &mut Parked, id: &AgentId, agent: &Agent) {
    let Some((set, number)) = agent.parked_as() else { return };
    let Some(lists) = parked.get_mut(&set) else { return };
    let Some(with_these) = lists.get_mut(&agent.tags) else { return };
    with_these.remove(&(number, id.clone()));
    if with_these.is_empty() {
        lists.remove(&agent.tags);
    }
    if lists.is_empty() {
        parked.remove(&set);
    }
}

impl Agent {
    /// The list that it is parked in, and its number there, while it waits and may get a task.
    fn parked_as(&self) -> Option<(SetId, u64)> {
        match (self.slot, self.drained, self.tools) {
            (Slot::Parked(_, number), false, Some(tools)) => Some((tools.set, number)),
            _ => None,
        }
    }
}

const fn counted(counts: &mut AgentCounts, state: AgentState) -> &mut usize {
    match state {
        AgentState::Free => &mut counts.free,
        AgentState::Busy => &mut counts.busy,
        AgentState::Lost => &mut counts.lost,
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
