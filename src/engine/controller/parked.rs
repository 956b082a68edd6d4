//! The agents that wait for a task, in the order in which they get one.

use std::collections::{BTreeMap, BTreeSet};

use super::tool_sets::SetId;
use crate::types::{AgentId, Labels};

/// The agents that wait, longest first: by their tools, then by their tags. No map or set in it is empty.
#[derive(Debug, Default)]
pub(super) struct Parked(BTreeMap<SetId, BTreeMap<Labels, BTreeSet<(u64, AgentId)>>>);

impl Parked {
    /// Adds an agent with these tools and a number, which is greater than that of every agent that has waited longer.
    pub(super) fn add(&mut self, (set, number): (SetId, u64), tags: &Labels, id: &AgentId) {
        let lists = self.0.entry(set).or_default();
        // Agents come and go with each task: the tags are copied only for the first one that has them.
        match lists.get_mut(tags) {
            Some(with_these) => with_these.insert((number, id.clone())),
            None => lists.entry(tags.clone()).or_default().insert((number, id.clone())),
        };
    }

    /// Removes an agent that was added with the same words.
    pub(super) fn remove(&mut self, (set, number): (SetId, u64), tags: &Labels, id: &AgentId) {
        let Some(lists) = self.0.get_mut(&set) else { return };
        let Some(with_these) = lists.get_mut(tags) else { return };
        with_these.remove(&(number, id.clone()));
        if with_these.is_empty() {
            lists.remove(tags);
        }
        if lists.is_empty() {
            self.0.remove(&set);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sets of tools that agents which wait have.
    pub(super) fn sets(&self) -> impl Iterator<Item = SetId> {
        self.0.keys().copied()
    }

    /// The agent with these tools that a task which requires these tags gets: of those with the fewest tags, the one that has
    /// waited longest, so that special agents stay free for the tasks that need them. With how many tags it has, and its number.
    pub(super) fn best(&self, set: SetId, tags: &Labels) -> Option<(usize, u64, &AgentId)> {
        let suits = |(has, parked): (&Labels, &BTreeSet<(u64, AgentId)>)| {
            tags.are_within(has).then(|| parked.first().map(|(number, _)| (has.len(), *number))).flatten()
        };
        let lists = self.0.get(&set)?;
        let (count, number) = lists.iter().filter_map(suits).min()?;
        let mut first = lists.values().filter_map(BTreeSet::first);
        first.find(|(parked, _)| *parked == number).map(|(_, id)| (count, number, id))
    }

    /// All of them, with tools, tags and number.
    pub(super) fn all(&self) -> impl Iterator<Item = (SetId, &Labels, u64, &AgentId)> {
        assert!(self.0.values().all(|lists| !lists.is_empty()), "a list of parked agents by tools is empty");
        let lists = self.0.iter().flat_map(|(set, lists)| lists.iter().map(move |(tags, list)| (*set, tags, list)));
        lists.flat_map(|(set, tags, list)| {
            assert!(!list.is_empty(), "the list of parked agents with {tags:?} is empty");
            list.iter().map(move |(number, id)| (set, tags, *number, id))
        })
    }
}
