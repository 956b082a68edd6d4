//! The tasks of one line by their tools: a lane for each tool, and which lanes agents with each set of tools may serve.
//!
//! | a lane is served by | as long as |
//! |---|---|
//! | the sets that have its tool | an agent that is here has one of them |
//! | every set of an agent that is here | none of them has its tool: the agent that gets the task looks for the tool anew |
//!
//! A choice of a task looks at one head per line, however many tools there are. A change of a head costs O(log n) for each set
//! that serves its lane; a set that comes or goes costs a look at all lanes, which happens when agents or tools do.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::tool_sets::{SetId, ToolSets};
use crate::types::{TaskId, ToolName};

/// The place of a task in its lane, and in the whole queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) priority: Reverse<i8>,
    pub(super) task: TaskId,
}

#[derive(Debug)]
struct Lane {
    ready: BTreeSet<Place>,
    /// All that wait, the delayed and held ones too.
    members: usize,
    /// The sets that serve it.
    servers: Vec<SetId>,
    /// Whether those have the tool.
    is_stocked: bool,
}

#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: BTreeMap<ToolName, Lane>,
    /// The first tasks of the lanes that each set serves.
    heads: BTreeMap<SetId, BTreeSet<Place>>,
}

impl Lanes {
    /// One more task with this tool waits.
    pub(super) fn enter(&mut self, tool: &ToolName, sets: &ToolSets) {
        if let Some(lane) = self.lanes.get_mut(tool) {
            lane.members += 1;
            return;
        }
        let (servers, is_stocked) = servers_of(tool, sets);
        self.lanes.insert(tool.clone(), Lane { ready: BTreeSet::new(), members: 1, servers, is_stocked });
    }

    /// One task less does; it was taken from the ready ones before.
    pub(super) fn leave(&mut self, tool: &ToolName) {
        let Some(lane) = self.lanes.get_mut(tool) else { unreachable!("tool {tool} has no lane") };
        lane.members -= 1;
        if lane.members == 0 {
            self.lanes.remove(tool);
        }
    }

    /// A task may start; true when it is the head of its lane.
    pub(super) fn insert(&mut self, tool: &ToolName, place: Place) -> bool {
        self.change_ready(tool, |ready| ready.insert(place))
    }

    /// A task starts no more; true when it was the head of its lane.
    pub(super) fn remove(&mut self, tool: &ToolName, place: Place) -> bool {
        self.change_ready(tool, |ready| ready.remove(&place))
    }

    fn change_ready(&mut self, tool: &ToolName, change: impl FnOnce(&mut BTreeSet<Place>) -> bool) -> bool {
        let Some(lane) = self.lanes.get_mut(tool) else { unreachable!("tool {tool} has no lane") };
        let before = lane.ready.first().copied();
        let is_changed = change(&mut lane.ready);
        let after = lane.ready.first().copied();
        // Most tasks queue up behind others: then nothing changes for the line.
        if !is_changed || before == after {
            return false;
        }
        for set in &lane.servers {
            let heads = self.heads.entry(*set).or_default();
            if let Some(place) = before {
                heads.remove(&place);
            }
            heads.extend(after);
        }
        true
    }

    /// The sets that serve the lane of this tool.
    pub(super) fn servers(&self, tool: &ToolName) -> &[SetId] {
        self.lanes.get(tool).map_or(&[], |lane| &lane.servers)
    }

    /// The best task that an agent with this set may get.
    pub(super) fn first(&self, set: SetId) -> Option<Place> {
        self.heads.get(&set)?.first().copied()
    }

    pub(super) fn contains(&self, tool: &ToolName, place: Place) -> bool {
        self.lanes.get(tool).is_some_and(|lane| lane.ready.contains(&place))
    }

    /// The ready tasks before a place that compete with those of this tool for an agent.
    pub(super) fn rivals(&self, sets: &[SetId], place: Place) -> impl Iterator<Item = &Place> {
        let compete = move |lane: &&Lane| lane.servers.iter().any(|set| sets.contains(set));
        self.lanes.values().filter(compete).flat_map(move |lane| lane.ready.range(..place))
    }

    /// The first agent with a set has come, or the last one has gone: the lanes that it serves change, and, of tools that are
    /// there for the first time or not any more, those that others serve.
    pub(super) fn sets_have_changed(&mut self, set: SetId, sets: &ToolSets) {
        let is_here = sets.live().contains(&set);
        for (tool, lane) in &mut self.lanes {
            let has = is_here && sets.has(set, tool);
            let served = lane.servers.contains(&set);
            match (is_here, has, lane.is_stocked) {
                (true, false, true) => {}
                (true, true, true) | (true, false, false) => {
                    lane.servers.push(set);
                    self.heads.entry(set).or_default().extend(lane.ready.first());
                }
                (true, true, false) => lane.serve(&mut self.heads, vec![set], true),
                (false, ..) if !served => {}
                (false, _, true) if lane.servers.len() == 1 => {
                    lane.serve(&mut self.heads, sets.live().to_vec(), false);
                }
                (false, ..) => lane.servers.retain(|server| *server != set),
            }
        }
        if !is_here {
            self.heads.remove(&set);
        }
    }

    pub(super) fn sanity_check(&self, sets: &ToolSets) -> usize {
        let mut heads: BTreeMap<SetId, BTreeSet<Place>> = BTreeMap::new();
        for (tool, lane) in &self.lanes {
            let (mut expected, is_stocked) = servers_of(tool, sets);
            let mut servers = lane.servers.clone();
            expected.sort_unstable();
            servers.sort_unstable();
            assert_eq!((servers, lane.is_stocked), (expected, is_stocked), "who serves the lane of tool {tool}");
            assert!(lane.members > 0 && lane.ready.len() <= lane.members, "the lane of tool {tool} is empty");
            for (set, head) in lane.servers.iter().zip(std::iter::repeat(lane.ready.first())) {
                heads.entry(*set).or_default().extend(head);
            }
        }
        for set in self.heads.keys().chain(heads.keys()) {
            let [known, expected] = [&self.heads, &heads].map(|heads| heads.get(set).into_iter().flatten());
            assert!(known.eq(expected), "the heads of the lanes of {set:?}");
        }
        self.lanes.values().map(|lane| lane.members).sum()
    }
}

impl Lane {
    /// Gives the lane other servers.
    fn serve(&mut self, heads: &mut BTreeMap<SetId, BTreeSet<Place>>, servers: Vec<SetId>, is_stocked: bool) {
        if let Some(head) = self.ready.first() {
            for set in &self.servers {
                heads.entry(*set).or_default().remove(head);
            }
            for set in &servers {
                heads.entry(*set).or_default().insert(*head);
            }
        }
        (self.servers, self.is_stocked) = (servers, is_stocked);
    }
}

/// The sets that serve a lane, and whether they have its tool.
fn servers_of(tool: &ToolName, sets: &ToolSets) -> (Vec<SetId>, bool) {
    let with: Vec<_> = sets.with(tool).collect();
    if with.is_empty() { (sets.live().to_vec(), false) } else { (with, true) }
}
