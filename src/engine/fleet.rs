//! The agents: free, parked, busy or lost. [`assign`] chooses a task for an agent. [`adopt`] handles runs that agents had before
//! this start. [`contact`] handles silent agents and their return.

pub(crate) mod adopt;
pub(crate) mod agent;
pub(crate) mod assign;
mod capable;
pub(crate) mod contact;
pub(crate) mod held_slots;
pub(crate) mod leases;
pub(crate) mod lists;
pub(crate) mod parked;
pub(crate) mod tools;
pub(crate) mod unfit_agents;
mod warm;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::queue::tool_sets::SetId;
use crate::turn::effect::{ConnectionId, Ticket};
use agent::{About, Agent, Contact, Dispensable, LastRun, Liveness, Slot, state};
use api::wire::requests::agents::{AgentState, AgentView};
use api::wire::requests::stats::AgentCounts;
use base::{AgentId, HostAddress, Now, Offer, Round, Session, TaskId, ToolSet};
use contact::Suspicion;
use leases::Expiring;
use parked::Parked;
use warm::Warm;

#[derive(Debug)]
pub(crate) struct Fleet {
    agents: BTreeMap<AgentId, Agent>,
    /// Agents that make room for others, in this order; within each reason, the longest first.
    dispensable: BTreeMap<(Dispensable, u64), AgentId>,
    dispensed: u64,
    /// The parked agents that may get a task.
    parked: Parked,
    parkings: u64,
    warm: Warm,
    /// The agents that each connection parked last, whether they are still parked or not.
    by_connection: BTreeMap<ConnectionId, BTreeSet<AgentId>>,
    counts: AgentCounts,
    /// The agents that get no more tasks, whether they are registered or not.
    pub(crate) drained: BTreeSet<AgentId>,
    /// Agents that are denied something with each heartbeat, each with the process for which that was noted.
    denied: BTreeMap<AgentId, Session>,
    /// The void runs of exclusive tasks whose leases have not expired.
    pub(crate) expiring: BTreeMap<TaskId, Expiring>,
    /// Whether the controller may be cut off itself while its agents seem silent.
    suspicion: Suspicion,
    /// The number of the last list.
    last_list: u64,
    /// Whether tasks that wait for their children occupy every agent that could run these children.
    slots_are_held: bool,
}

/// Maximum number of denied agents that are remembered. Beyond it, an agent may be noted twice.
const DENIED_MAX: usize = 1000;

impl Fleet {
    /// A fleet without agents. Its first list has the number after `last_list`.
    pub(crate) fn with_lists_behind(last_list: u64) -> Self {
        Self {
            agents: BTreeMap::new(),
            dispensable: BTreeMap::new(),
            dispensed: 0,
            parked: Parked::default(),
            parkings: 0,
            warm: Warm::default(),
            by_connection: BTreeMap::new(),
            counts: AgentCounts::default(),
            drained: BTreeSet::new(),
            denied: BTreeMap::new(),
            expiring: BTreeMap::new(),
            suspicion: Suspicion::default(),
            last_list,
            slots_are_held: false,
        }
    }

    /// The void run of this exclusive task, until its lease has expired.
    pub(crate) fn expiring(&self, task: TaskId) -> Option<&Expiring> {
        self.expiring.get(&task)
    }

    pub(crate) fn is_expiring(&self, task: TaskId) -> bool {
        self.expiring.contains_key(&task)
    }

    pub(crate) fn get(&self, id: &AgentId) -> Option<&Agent> {
        self.agents.get(id)
    }

    pub(crate) fn slot(&self, id: &AgentId) -> Option<Slot> {
        self.get(id).map(|agent| agent.slot)
    }

    /// The slot of an agent that must be registered.
    pub(crate) fn slot_or_free(&self, id: &AgentId) -> Slot {
        self.slot(id).unwrap_or(Slot::Free)
    }

    /// Notes that an agent is denied something with each heartbeat: everything because of its version, or only commands. True for
    /// the first time in its process.
    pub(crate) fn note_denied(&mut self, id: &AgentId, session: Session) -> bool {
        if self.denied.len() >= DENIED_MAX {
            self.denied.clear();
        }
        self.denied.insert(id.clone(), session) != Some(session)
    }

    pub(crate) fn len(&self) -> usize {
        self.agents.len()
    }

    pub(crate) fn register(&mut self, now: Now, id: AgentId, liveness: Liveness) {
        let agent = Agent {
            slot: Slot::Free,
            list: None,
            last_run: LastRun::None,
            has_worked: false,
            dispensable: None,
            contact: Contact { liveness, heard: now.mono, heard_wall: now.wall, silence: None, newest_beat: None },
            about: About::default(),
            offer: Offer::default(),
            tools: None,
            drained: self.drained.contains(&id),
            connection: None,
        };
        self.counts.total += 1;
        self.counts.free += 1;
        let listed = id.clone();
        let before = self.agents.insert(id, agent);
        assert!(before.is_none(), "an agent is registered over another one");
        self.relist(&listed, |_| {});
    }

    pub(crate) fn remove(&mut self, id: &AgentId) {
        self.set_slot(id, Slot::Free);
        self.set_warm(id, BTreeSet::new());
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

    /// An agent gets a run.
    pub(crate) fn give(&mut self, id: &AgentId, task: TaskId, round: Round) {
        self.set_slot(id, Slot::Busy(task));
        if let Some(agent) = self.agents.get_mut(id) {
            agent.last_run = LastRun::Given { task, round, again: false };
        }
    }

    /// An agent has reported the end of its run, or asks for another one.
    pub(crate) fn end_given(&mut self, id: &AgentId) {
        if let Some(agent) = self.agents.get_mut(id).filter(|agent| agent.given().is_some()) {
            agent.last_run = LastRun::None;
        }
    }

    /// An agent, for a change that leaves it in the same lists of agents, such as a change of its list of tasks.
    pub(crate) fn get_mut(&mut self, id: &AgentId) -> Option<&mut Agent> {
        self.agents.get_mut(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&AgentId, &Agent)> {
        self.agents.iter()
    }

    /// Updates the time of an agent's last message. If the pause before it was longer than `pause_max`, it counts as a silence.
    pub(crate) fn note_sign_of_life(&mut self, now: Now, id: &AgentId, pause_max: Duration) {
        if let Some(agent) = self.agents.get_mut(id) {
            if now.mono.since(agent.contact.heard) > pause_max {
                agent.contact.silence = Some((agent.contact.heard, now.mono));
            }
            agent.contact.heard = now.mono;
            agent.contact.heard_wall = now.wall;
        }
    }

    /// A heartbeat with this number came on this connection.
    pub(crate) fn note_beat(&mut self, id: &AgentId, beat: u32, connection: ConnectionId) {
        if let Some(agent) = self.agents.get_mut(id)
            && agent.contact.newest_beat.is_none_or(|(newest, _)| newest < beat)
        {
            agent.contact.newest_beat = Some((beat, connection));
        }
    }

    /// Whether an agent has a newer connection than this one. False if its heartbeats have no numbers, because nothing else tells.
    pub(crate) fn has_newer_connection(&self, id: &AgentId, connection: ConnectionId) -> bool {
        let newest = self.get(id).and_then(|agent| agent.contact.newest_beat);
        newest.is_some_and(|(_, newest)| newest != connection)
    }

    /// The address of an agent's machine, if it is not this machine.
    pub(crate) fn host(&self, id: &AgentId) -> Option<HostAddress> {
        self.agents.get(id)?.about.host
    }

    /// Sets an agent's offer to tasks.
    pub(crate) fn set_offer(&mut self, id: &AgentId, offer: Offer) {
        if self.agents.get(id).is_some_and(|agent| agent.offer != offer) {
            self.relist(id, |agent| agent.offer = offer);
        }
    }

    /// Sets whether an agent gets no more tasks. It need not be registered.
    pub(crate) fn set_drained(&mut self, id: &AgentId, drained: bool) {
        if drained {
            self.drained.insert(id.clone());
        } else {
            self.drained.remove(id);
        }
        self.relist(id, |agent| agent.drained = drained);
    }

    /// All known names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &AgentId> {
        self.agents.keys().chain(&self.drained)
    }

    /// Applies a change that may move an agent between lists.
    fn relist(&mut self, id: &AgentId, change: impl FnOnce(&mut Agent)) {
        let Some(agent) = self.agents.get_mut(id) else { return };
        self.parked.remove(id, agent);
        change(agent);
        self.parked.add(id, agent);
        let reason = agent.why_dispensable();
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

    /// Makes an agent wait for a task.
    pub(crate) fn park(&mut self, id: &AgentId, ticket: Ticket) {
        self.parkings += 1;
        self.set_slot(id, Slot::Parked(ticket, self.parkings));
        // It changes only when the agent reconnects, so that parking usually costs no change of the index.
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

    /// The agents that this connection has parked, with their tickets.
    pub(crate) fn parked_by(&self, connection: ConnectionId) -> Vec<(AgentId, Ticket)> {
        let of_it = self.by_connection.get(&connection).into_iter().flatten();
        let parked = |id: &AgentId| match self.slot(id) {
            Some(Slot::Parked(ticket, _)) if ticket.connection == connection => Some((id.clone(), ticket)),
            _ => None,
        };
        of_it.filter_map(parked).collect()
    }

    /// The only place that changes a slot; it keeps the list of parked agents consistent.
    pub(crate) fn set_slot(&mut self, id: &AgentId, slot: Slot) {
        let Some(before) = self.slot(id).map(state) else { return };
        self.relist(id, |agent| {
            agent.has_worked |= matches!(slot, Slot::Parked(..) | Slot::Busy(_));
            agent.slot = slot;
        });
        *counted(&mut self.counts, before) -= 1;
        *counted(&mut self.counts, state(slot)) += 1;
    }

    /// The numbers of AGENT/QUERY (docs/sources/controller.md, 2.4).
    pub(crate) const fn counts(&self) -> AgentCounts {
        self.counts
    }

    /// A page of agents, in the order of their ids.
    pub(crate) fn page(
        &self,
        offset: usize,
        limit: usize,
        tools: impl Fn(SetId) -> Option<Arc<ToolSet>>,
    ) -> Vec<AgentView> {
        let view = |(id, agent): (&AgentId, &Agent)| AgentView {
            id: id.clone(),
            state: state(agent.slot),
            task: agent.slot.task(),
            ip: agent.about.ip.clone(),
            version: agent.about.version.as_ref().map(|version| version.program.clone()),
            own_versions: agent.about.own_versions.clone(),
            warm: agent.about.warm.clone(),
            tags: agent.offer.tags.clone(),
            tools: agent.tools.and_then(|known| tools(known.set)),
            drained: agent.drained,
            heard: agent.contact.heard_wall,
        };
        self.agents.iter().skip(offset).take(limit).map(view).collect()
    }

    /// All agents that have a task, with that task.
    pub(crate) fn busy(&self) -> impl Iterator<Item = (&AgentId, TaskId)> {
        self.agents.iter().filter_map(|(id, agent)| Some((id, agent.slot.task()?)))
    }

    pub(crate) fn sanity_check(&self) {
        for (set, offer, number, id) in self.parked.all.iter() {
            let agent = self.get(id).unwrap_or_else(|| panic!("{id} is listed as parked and gone"));
            let is_right = agent.parked_as() == Some((set, number)) && agent.offer == *offer;
            assert!(is_right, "{id} is listed as parked");
        }
        self.check_warm();
        let parked = |agent: &&Agent| matches!(agent.slot, Slot::Parked(..)) && !agent.drained;
        let listed = self.parked.all.iter().count();
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

const fn counted(counts: &mut AgentCounts, state: AgentState) -> &mut usize {
    match state {
        AgentState::Free => &mut counts.free,
        AgentState::Busy => &mut counts.busy,
        AgentState::Lost => &mut counts.lost,
    }
}
