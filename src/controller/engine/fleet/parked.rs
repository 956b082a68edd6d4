//! The agents that wait for a task, in the order in which they get one.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::queue::tool_sets::SetId;
use base::{AgentId, HostAddress, Offer, Requirements};

/// The waiting agents, longest first: by their tools, then by their offer. No map or set in it is empty.
#[derive(Debug, Default)]
pub(crate) struct Parked(BTreeMap<SetId, BTreeMap<Offer, BTreeSet<(u64, AgentId)>>>);

/// An agent that can run a task: the size of its offer, its number, and its id. The smallest gets the task.
pub(crate) type Suited<'a> = ((usize, bool), u64, &'a AgentId);

impl Parked {
    /// Adds an agent with these tools and a number, which is greater than that of every agent that has waited longer.
    pub(crate) fn add(&mut self, (set, number): (SetId, u64), offer: &Offer, id: &AgentId) {
        let lists = self.0.entry(set).or_default();
        // Agents come and go with each task, so the offer is copied only for the first agent with it.
        match lists.get_mut(offer) {
            Some(with_this) => with_this.insert((number, id.clone())),
            None => lists.entry(offer.clone()).or_default().insert((number, id.clone())),
        };
    }

    /// Removes an agent that was added with the same arguments.
    pub(crate) fn remove(&mut self, (set, number): (SetId, u64), offer: &Offer, id: &AgentId) {
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

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tool sets of the waiting agents.
    pub(crate) fn sets(&self) -> impl Iterator<Item = SetId> {
        self.0.keys().copied()
    }

    /// The agent with these tools for a task with these requirements: among those with the fewest tags, and simple ones
    /// if possible, the one that has waited longest. Specialised agents thus stay free for the tasks that need them.
    /// `host_of` names the machine of an agent.
    pub(crate) fn best(
        &self,
        set: SetId,
        needs: &Requirements,
        host_of: impl Fn(&AgentId) -> Option<HostAddress>,
    ) -> Option<Suited<'_>> {
        let suited = self.0.get(&set)?.iter().filter(|(offer, _)| offer.meets(needs));
        let first = suited.filter_map(|(offer, parked)| {
            let (number, id) = parked.iter().find(|(_, id)| needs.allow(id, || host_of(id)))?;
            Some(((offer.tags.len(), offer.is_full), *number, id))
        });
        first.min()
    }

    /// All waiting agents, with tools, offer and number.
    pub(crate) fn all(&self) -> impl Iterator<Item = (SetId, &Offer, u64, &AgentId)> {
        assert!(self.0.values().all(|lists| !lists.is_empty()), "a list of parked agents by tools is empty");
        let lists = self.0.iter().flat_map(|(set, lists)| lists.iter().map(move |(offer, list)| (*set, offer, list)));
        lists.flat_map(|(set, offer, list)| {
            assert!(!list.is_empty(), "the list of parked agents with {offer:?} is empty");
            list.iter().map(move |(number, id)| (set, offer, *number, id))
        })
    }
}
