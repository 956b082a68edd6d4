//! The tasks of one line by their tools: a lane for each tool, and the sets of tools whose agents may serve each lane.
//!
//! | a lane is served by | as long as |
//! |---|---|
//! | the sets that contain its tool | a present agent has one of them |
//! | every set of a present agent | none of them contains its tool: the agent that gets the task looks into its folder, and the task ends if the tool is not there ([`crate::fleet::tools`]) |
//!
//! The lane of commands is served by the first kind of sets only: an agent either knows the built-in operation or does not,
//! and its folder does not change that.
//!
//! A choice of a task looks at one head per line, however many tools there are. A change of a head costs O(log n) for each set that
//! serves its lane. Only when a set comes or goes, with an agent or a tool, are all lanes looked at.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use super::tool_sets::{SetId, ToolSets};
use base::{TaskId, ToolName};

/// The place of a task in its lane and in the whole queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) priority: Reverse<i8>,
    pub(crate) task: TaskId,
}

#[derive(Debug)]
struct Lane {
    /// Tasks that an agent may get.
    ready: BTreeSet<Place>,
    /// Number of all waiting tasks, including delayed and held ones.
    members: usize,
    /// The sets that serve it.
    servers: Vec<SetId>,
    /// Whether those sets contain the tool.
    is_stocked: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Lanes {
    lanes: BTreeMap<ToolName, Lane>,
    /// The first tasks of the lanes that each set serves.
    heads: BTreeMap<SetId, BTreeSet<Place>>,
}

impl Lanes {
    /// One more task with this tool waits.
    pub(crate) fn enter(&mut self, tool: &ToolName, sets: &ToolSets) {
        if let Some(lane) = self.lanes.get_mut(tool) {
            lane.members += 1;
            return;
        }
        let (servers, is_stocked) = servers_of(tool, sets);
        self.lanes.insert(tool.clone(), Lane { ready: BTreeSet::new(), members: 1, servers, is_stocked });
    }

    /// One task less waits; it has been removed from the ready ones before.
    pub(crate) fn leave(&mut self, tool: &ToolName) {
        let Some(lane) = self.lanes.get_mut(tool) else { unreachable!("tool {tool} has no lane") };
        lane.members -= 1;
        if lane.members == 0 {
            self.lanes.remove(tool);
        }
    }

    /// Whether a present agent has this tool, for which tasks wait.
    pub(crate) fn is_stocked(&self, tool: &ToolName) -> bool {
        self.lanes.get(tool).is_some_and(|lane| lane.is_stocked)
    }

    /// A task may start. True if that changes the head of its lane.
    pub(crate) fn insert(&mut self, tool: &ToolName, place: Place) -> bool {
        self.change(tool, |lane| {
            lane.ready.insert(place);
        })
    }

    /// A task may not start any more. True if that changes the head of its lane.
    pub(crate) fn remove(&mut self, tool: &ToolName, place: Place) -> bool {
        self.change(tool, |lane| {
            lane.ready.remove(&place);
        })
    }

    fn change(&mut self, tool: &ToolName, change: impl FnOnce(&mut Lane)) -> bool {
        let Some(lane) = self.lanes.get_mut(tool) else { unreachable!("tool {tool} has no lane") };
        let before = lane.head();
        change(lane);
        // Most tasks queue up behind others, which changes nothing for the line.
        let is_changed = before != lane.head();
        if is_changed {
            lane.set_head(&mut self.heads, before);
        }
        is_changed
    }

    /// The sets that serve the lane of this tool.
    pub(crate) fn servers(&self, tool: &ToolName) -> &[SetId] {
        self.lanes.get(tool).map_or(&[], |lane| &lane.servers)
    }

    /// The best task for an agent with this set.
    pub(crate) fn first(&self, set: SetId) -> Option<Place> {
        self.heads.get(&set)?.first().copied()
    }

    /// The first task of each lane that this set serves.
    pub(crate) fn heads(&self, set: SetId) -> impl Iterator<Item = &Place> {
        self.heads.get(&set).into_iter().flatten()
    }

    /// The number of ready tasks with this tool, and the oldest of them.
    pub(crate) fn ready_with(&self, tool: &ToolName) -> Option<(usize, TaskId)> {
        self.lanes.get(tool).and_then(|lane| Some((lane.ready.len(), lane.oldest()?)))
    }

    pub(crate) fn contains(&self, tool: &ToolName, place: Place) -> bool {
        self.lanes.get(tool).is_some_and(|lane| lane.ready.contains(&place))
    }

    /// For each lane that has one: its first ready task, and the number of them.
    pub(crate) fn ready(&self) -> impl Iterator<Item = (TaskId, usize)> {
        self.lanes.values().filter_map(|lane| Some((lane.head()?.task, lane.ready.len())))
    }

    /// The oldest ready task. It costs O(log n) for each priority that occurs in a lane.
    pub(crate) fn oldest(&self) -> Option<TaskId> {
        self.lanes.values().filter_map(Lane::oldest).min()
    }

    /// Number of lanes.
    pub(crate) fn len(&self) -> usize {
        self.lanes.len()
    }

    /// The ready tasks before a place that compete with those of this tool for an agent.
    pub(crate) fn rivals(&self, sets: &[SetId], place: Place) -> impl Iterator<Item = &Place> {
        let compete = move |lane: &&Lane| lane.servers.iter().any(|set| sets.contains(set));
        self.lanes.values().filter(compete).flat_map(move |lane| lane.ready.range(..place))
    }

    /// The first agent with a set has come, or the last one has gone. Updates the lanes that the set serves, and, for tools
    /// that have appeared or disappeared with it, the lanes that other sets serve.
    pub(crate) fn sets_have_changed(&mut self, set: SetId, sets: &ToolSets) {
        let is_here = sets.live().contains(&set);
        for (tool, lane) in &mut self.lanes {
            let has = is_here && sets.has(set, tool);
            let served = lane.servers.contains(&set);
            match (is_here, has, lane.is_stocked) {
                (true, false, true) => {}
                (true, true, true) | (true, false, false) => {
                    lane.servers.push(set);
                    self.heads.entry(set).or_default().extend(lane.head());
                }
                (true, true, false) => lane.serve(&mut self.heads, vec![set], true),
                (false, ..) if !served => {}
                (false, _, true) if lane.servers.len() == 1 && tool.is_archive() => {
                    lane.serve(&mut self.heads, sets.live().to_vec(), false);
                }
                (false, ..) => lane.servers.retain(|server| *server != set),
            }
        }
        if !is_here {
            self.heads.remove(&set);
        }
    }

    /// Agents can fetch this tool from the controller from here on, or cannot any more.
    pub(crate) fn tool_has_changed(&mut self, tool: &ToolName, sets: &ToolSets) {
        let Some(lane) = self.lanes.get_mut(tool) else { return };
        let (servers, is_stocked) = servers_of(tool, sets);
        if !lane.is_stocked && !is_stocked {
            return;
        }
        lane.serve(&mut self.heads, servers, is_stocked);
    }

    pub(crate) fn sanity_check(&self, sets: &ToolSets) -> usize {
        let mut heads: BTreeMap<SetId, BTreeSet<Place>> = BTreeMap::new();
        for (tool, lane) in &self.lanes {
            let (mut expected, is_stocked) = servers_of(tool, sets);
            let mut servers = lane.servers.clone();
            expected.sort_unstable();
            servers.sort_unstable();
            assert_eq!((servers, lane.is_stocked), (expected, is_stocked), "servers of the lane of tool {tool}");
            assert!(lane.members > 0 && lane.ready.len() <= lane.members, "the lane of tool {tool} is empty");
            for (set, head) in lane.servers.iter().zip(std::iter::repeat(lane.head())) {
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
    /// Gives the lane other servers, which differ from the previous ones in whether they have its tool.
    fn serve(&mut self, heads: &mut BTreeMap<SetId, BTreeSet<Place>>, servers: Vec<SetId>, is_stocked: bool) {
        if let Some(head) = self.head() {
            for set in &self.servers {
                heads.entry(*set).or_default().remove(&head);
            }
        }
        (self.servers, self.is_stocked) = (servers, is_stocked);
        self.set_head(heads, None);
    }

    /// The oldest ready task: the first one of a priority, for each of them.
    fn oldest(&self) -> Option<TaskId> {
        let mut next = self.ready.first().copied();
        let mut oldest: Option<TaskId> = None;
        while let Some(Place { priority, task }) = next {
            oldest = Some(oldest.map_or(task, |oldest| oldest.min(task)));
            next = self.ready.range((Excluded(Place { priority, task: TaskId::MAX }), Unbounded)).next().copied();
        }
        oldest
    }

    /// The task that an agent gets next.
    fn head(&self) -> Option<Place> {
        self.ready.first().copied()
    }

    /// The head has changed. Updates it for all servers.
    fn set_head(&self, heads: &mut BTreeMap<SetId, BTreeSet<Place>>, before: Option<Place>) {
        for set in &self.servers {
            let heads = heads.entry(*set).or_default();
            if let Some(place) = before {
                heads.remove(&place);
            }
            heads.extend(self.head());
        }
    }
}

/// The sets that serve a lane, and whether they contain its tool.
fn servers_of(tool: &ToolName, sets: &ToolSets) -> (Vec<SetId>, bool) {
    let with: Vec<_> = sets.with(tool).collect();
    if with.is_empty() && tool.is_archive() { (sets.live().to_vec(), false) } else { (with, true) }
}
