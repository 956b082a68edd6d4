//! The agents that wait for a task, in the order in which they get one.

use std::collections::{BTreeMap, BTreeSet};

use super::agent::Agent;
use crate::queue::tool_sets::SetId;
use base::{AgentId, HostAddress, Offer, Requirements, ToolName};

/// Waiting agents, longest first: by their tools, then by their offer. No map or set in it is empty.
#[derive(Debug, Default)]
pub(crate) struct Lists(BTreeMap<SetId, BTreeMap<Offer, BTreeSet<(u64, AgentId)>>>);

/// The waiting agents: all of them, and those that have a tool warm, for each such tool.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    pub(crate) all: Lists,
    warm: BTreeMap<ToolName, Lists>,
}

/// An agent that can run a task: whether its tool is cold there, the size of its offer, its number, and its id. The smallest one
/// gets the task.
pub(crate) type Suited<'a> = (bool, (usize, bool), u64, &'a AgentId);

impl Lists {
    fn add(&mut self, (set, number): (SetId, u64), offer: &Offer, id: &AgentId) {
        let lists = self.0.entry(set).or_default();
        // Agents come and go with each task, so the offer is copied only for the first agent with it.
        match lists.get_mut(offer) {
            Some(with_this) => with_this.insert((number, id.clone())),
            None => lists.entry(offer.clone()).or_default().insert((number, id.clone())),
        };
    }

    fn remove(&mut self, (set, number): (SetId, u64), offer: &Offer, id: &AgentId) {
        let Some(lists) = self.0.get_mut(&set) else { return };
        let Some(with_this) = lists.get_mut(offer) else { return };
        with_this.remove(&(number, id.clone()));
        if with_this.is_empty() {
            lists.remove(offer);
        }
        if lists.is_empty() {
            self.0.remove(&set);
        }
    }

    /// The agents, with tools, offer and number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SetId, &Offer, u64, &AgentId)> {
        assert!(self.0.values().all(|lists| !lists.is_empty()), "a list of parked agents by tools is empty");
        let lists = self.0.iter().flat_map(|(set, lists)| lists.iter().map(move |(offer, list)| (*set, offer, list)));
        lists.flat_map(|(set, offer, list)| {
            assert!(!list.is_empty(), "the list of parked agents with {offer:?} is empty");
            list.iter().map(move |(number, id)| (set, offer, *number, id))
        })
    }
}

impl Parked {
    /// Adds an agent if it waits and may get a task. Its number is greater than that of every agent that has waited longer.
    pub(crate) fn add(&mut self, id: &AgentId, agent: &Agent) {
        let Some(place) = agent.parked_as() else { return };
        self.all.add(place, &agent.offer, id);
        for tool in &agent.about.warm {
            self.warm.entry(tool.clone()).or_default().add(place, &agent.offer, id);
        }
    }

    /// Removes an agent that was added in the same state.
    pub(crate) fn remove(&mut self, id: &AgentId, agent: &Agent) {
        let Some(place) = agent.parked_as() else { return };
        self.all.remove(place, &agent.offer, id);
        for tool in &agent.about.warm {
            let Some(lists) = self.warm.get_mut(tool) else { continue };
            lists.remove(place, &agent.offer, id);
            if lists.0.is_empty() {
                self.warm.remove(tool);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.0.is_empty()
    }

    /// The tool sets of the waiting agents.
    pub(crate) fn sets(&self) -> impl Iterator<Item = SetId> {
        self.all.0.keys().copied()
    }

    /// The best agent with these tools for a task with this tool and these requirements. Only agents that have the tool warm are
    /// considered, if one of them is suited. Of these, the agent with the fewest tags is best, simple ones first, and among equal
    /// ones the agent that has waited longest. So specialised agents stay free for the tasks that need them. `host_of` names the
    /// machine of an agent.
    pub(crate) fn best(
        &self,
        set: SetId,
        (needs, tool): (&Requirements, &ToolName),
        host_of: impl Fn(&AgentId) -> Option<HostAddress>,
    ) -> Option<Suited<'_>> {
        let warm = self.warm.get(tool).into_iter().map(|lists| (false, lists));
        warm.chain([(true, &self.all)]).find_map(|(is_cold, lists)| {
            let suited = lists.0.get(&set)?.iter().filter(|(offer, _)| offer.meets(needs));
            let first = suited.filter_map(|(offer, parked)| {
                let (number, id) = parked.iter().find(|(_, id)| needs.allow(id, || host_of(id)))?;
                Some((is_cold, (offer.tags.len(), offer.is_full), *number, id))
            });
            first.min()
        })
    }

    /// The waiting agents with each tool that they have warm.
    pub(crate) fn all_warm(&self) -> impl Iterator<Item = (&ToolName, &AgentId)> {
        self.warm.iter().flat_map(|(tool, lists)| lists.iter().map(move |(.., id)| (tool, id)))
    }
}
