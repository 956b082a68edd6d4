//! The different tool sets of the agents, each stored once. Agents with equal sets share its number, so that the choice of a task
//! depends on the set and not on the agent. A fleet with one tools folder has a single set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{ToolName, ToolSet};

/// The number of a set. It is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SetId(u64);

/// Maximum number of names in all sets together, about 100 bytes each. An agent beyond this is assumed to have every tool.
const NAMES_MAX: usize = 1_000_000;

#[derive(Debug)]
struct Entry {
    set: Arc<ToolSet>,
    /// Number of agents with it, including lost ones.
    holders: usize,
    /// Number of present agents with it.
    here: usize,
}

#[derive(Debug, Default)]
pub(crate) struct ToolSets {
    sets: BTreeMap<SetId, Entry>,
    ids: BTreeMap<Arc<ToolSet>, SetId>,
    /// The sets of present agents.
    live: Vec<SetId>,
    names: usize,
    last: u64,
    /// The tools that agents can fetch from the controller.
    held: BTreeSet<ToolName>,
}

impl ToolSets {
    /// The number of a set for one more agent that holds it, until [`Self::release`].
    pub(crate) fn hold(&mut self, set: ToolSet) -> SetId {
        let fits = self.names + set.names().len() <= NAMES_MAX;
        let set = if fits || self.ids.contains_key(&set) { set } else { ToolSet::every() };
        let id = match self.ids.get(&set) {
            Some(id) => *id,
            None => self.add(Arc::new(set)),
        };
        if let Some(entry) = self.sets.get_mut(&id) {
            entry.holders += 1;
        }
        id
    }

    fn add(&mut self, set: Arc<ToolSet>) -> SetId {
        self.last += 1;
        self.names += set.names().len();
        let id = SetId(self.last);
        self.ids.insert(Arc::clone(&set), id);
        self.sets.insert(id, Entry { set, holders: 0, here: 0 });
        id
    }

    /// An agent stops holding the set; if it was present, [`Self::leave`] came before.
    pub(crate) fn release(&mut self, id: SetId) {
        let Some(entry) = self.sets.get_mut(&id) else { return };
        entry.holders -= 1;
        if entry.holders == 0
            && let Some(entry) = self.sets.remove(&id)
        {
            self.names -= entry.set.names().len();
            self.ids.remove(&entry.set);
        }
    }

    /// An agent with this set is present; true for the first one.
    pub(crate) fn enter(&mut self, id: SetId) -> bool {
        let Some(entry) = self.sets.get_mut(&id) else { unreachable!("an agent enters without a set") };
        entry.here += 1;
        let is_first = entry.here == 1;
        if is_first {
            self.live.push(id);
        }
        is_first
    }

    /// An agent with this set is not present any more; true for the last one.
    pub(crate) fn leave(&mut self, id: SetId) -> bool {
        let Some(entry) = self.sets.get_mut(&id) else { unreachable!("an agent leaves without a set") };
        entry.here -= 1;
        let was_last = entry.here == 0;
        if was_last {
            self.live.retain(|live| *live != id);
        }
        was_last
    }

    pub(crate) fn get(&self, id: SetId) -> Option<&Arc<ToolSet>> {
        self.sets.get(&id).map(|entry| &entry.set)
    }

    /// Whether an agent with this set can run a tool: it has the tool, or fetches it from the controller.
    pub(crate) fn has(&self, id: SetId, tool: &ToolName) -> bool {
        self.get(id).is_some_and(|set| set.has(tool) || set.fetches() && self.held.contains(tool))
    }

    /// Whether an agent with this set has the tool in a folder of its own.
    pub(crate) fn has_own(&self, id: SetId, tool: &ToolName) -> bool {
        self.get(id).is_some_and(|set| set.has(tool))
    }

    /// The controller begins or ceases to hold a tool. True if that is a change.
    pub(crate) fn set_held(&mut self, tool: &ToolName, is_held: bool) -> bool {
        if is_held { self.held.insert(tool.clone()) } else { self.held.remove(tool) }
    }

    /// The sets of present agents.
    pub(crate) fn live(&self) -> &[SetId] {
        &self.live
    }

    /// Whether each present agent has told its tools, and there is one.
    pub(crate) fn are_all_told(&self) -> bool {
        let is_told = |id| self.get(id).is_some_and(|set| matches!(**set, ToolSet::Only(_)));
        !self.live.is_empty() && self.live.iter().copied().all(is_told)
    }

    /// The tools of present agents and of the controller. A tool appears once for each set that has it, and once if the controller
    /// holds it.
    pub(crate) fn names(&self) -> impl Iterator<Item = &ToolName> {
        let names = self.live.iter().filter_map(|id| self.get(*id)).flat_map(|set| set.names());
        names.filter(|tool| tool.is_archive()).chain(&self.held)
    }

    /// Whether the controller holds this tool, or a present agent may have it.
    pub(crate) fn is_known(&self, tool: &ToolName) -> bool {
        self.held.contains(tool) || self.with(tool).next().is_some()
    }

    /// The sets of present agents that contain this tool.
    pub(crate) fn with(&self, tool: &ToolName) -> impl Iterator<Item = SetId> {
        self.live.iter().copied().filter(move |id| self.has(*id, tool))
    }

    /// Checks the counts against the agents: the set that each holds, and whether it is present.
    pub(crate) fn sanity_check(&self, agents: impl Iterator<Item = (SetId, bool)>) {
        let mut counts: BTreeMap<SetId, (usize, usize)> = BTreeMap::new();
        for (id, here) in agents {
            let count = counts.entry(id).or_default();
            count.0 += 1;
            count.1 += usize::from(here);
        }
        let known: BTreeMap<_, _> = self.sets.iter().map(|(id, entry)| (*id, (entry.holders, entry.here))).collect();
        assert_eq!(known, counts, "the agents with each set of tools");
        let mut live = self.live.clone();
        live.sort_unstable();
        let here: Vec<_> = counts.iter().filter(|(_, (_, here))| *here > 0).map(|(id, _)| *id).collect();
        assert_eq!(live, here, "the sets of tools that are here");
        assert_eq!(
            self.names,
            self.sets.values().map(|entry| entry.set.names().len()).sum::<usize>(),
            "names of tools"
        );
    }
}
