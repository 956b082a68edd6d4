//! The waiting tasks: their order, and the reasons that hold them up.
//!
//! | a waiting task is | until |
//! |---|---|
//! | held | a client releases it |
//! | blocked | the last of its terms is met: `__AFTER__` |
//! | suspected | the controller stops suspecting itself: its run may go on at its silent agent ([`crate::fleet::contact`]) |
//! | delayed | its moment: `__START_AFTER__`, the delay of a retry, a defer |
//! | ready | an agent takes it; higher priority first, then the older task. It may change its line meanwhile, once an agent whose disk was full may get it again |
//!
//! Tasks with equal requirements (gates, tags, a lease) wait in one line. A line is open while every one of its gates lets one more
//! task pass; of the open lines, the one with the best head comes first. So a closed gate holds up only the tasks that name it.
//! Within a line, each tool has a lane of its own ([`lanes`]), and an agent gets the best task of the lanes that its set of tools
//! serves: each present set has its own list of the open lines. Cost: O(log n) in the tasks, for each set that contains the tool. A
//! choice looks at the open lines in their order until one fits; their number is that of the different requirements, which is
//! limited.

pub(crate) mod gate;
pub(crate) mod gates;
mod held;
mod lanes;
mod summary;
pub(crate) mod tool_sets;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::fleet::agent::Agent;
use crate::fleet::parked::Suited;
use base::{
    AgentId, GateVerdict, Holdup, Label, Now, Requirements, Servers, TaskId, TaskRecord, TaskState, ToolName, ToolSet,
    Wall,
};
use gates::Gates;
use lanes::{Lanes, Place};
use tool_sets::{SetId, ToolSets};

/// The tasks with equal requirements.
#[derive(Debug, Default)]
struct Line {
    lanes: Lanes,
    /// Number of all waiting tasks, including delayed and held ones.
    members: usize,
    /// Whether every gate lets one more task pass.
    is_admitted: bool,
    /// The head for each set, while the line is open.
    open: BTreeMap<SetId, Place>,
}

/// The open lines in the order of their heads, for each set of tools.
type OpenLines = BTreeMap<SetId, BTreeSet<(Place, Arc<Requirements>)>>;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    lines: BTreeMap<Arc<Requirements>, Line>,
    open: OpenLines,
    delayed: BTreeSet<(Wall, TaskId)>,
    pub(crate) gates: Gates,
    /// The tools of the agents.
    pub(crate) sets: ToolSets,
    len: usize,
    bytes: usize,
}

impl Queue {
    /// Number of waiting tasks.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that the waiting tasks cost.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of different requirements among waiting tasks, or 0 if these are one of them.
    pub(crate) fn other_needs(&self, needs: &Requirements) -> usize {
        if self.lines.contains_key(needs) { 0 } else { self.lines.len() }
    }

    /// A task begins to wait.
    pub(crate) fn enter(&mut self, now: Now, record: &TaskRecord) {
        let needs = &*record.needs();
        if !self.lines.contains_key(needs) {
            let needs = Arc::new(needs.clone());
            self.gates.enter(now, &needs);
            self.lines.insert(needs, Line::default());
        }
        if let Some(line) = self.lines.get_mut(needs) {
            line.members += 1;
            line.lanes.enter(&record.tool, &self.sets);
        }
        self.len += 1;
        self.bytes += record.bytes();
        self.delayed.extend(record.next_trial().map(|at| (at, record.id)));
        match delay(record) {
            None => {}
            Some(Delay::Until(at)) => {
                self.delayed.insert((at, record.id));
            }
            Some(Delay::Ready) => self.make_ready(now, record),
        }
    }

    /// A task stops waiting; `record` is its state while it waited.
    pub(crate) fn leave(&mut self, now: Now, record: &TaskRecord) {
        self.len -= 1;
        self.bytes -= record.bytes();
        if let Some(Delay::Until(at)) = delay(record) {
            self.delayed.remove(&(at, record.id));
        }
        record.next_trial().map(|at| self.delayed.remove(&(at, record.id)));
        let needs = &*record.needs();
        let Some(line) = self.lines.get_mut(needs) else { unreachable!("task {} waits in no line", record.id) };
        line.members -= 1;
        let was_head = line.lanes.remove(&record.tool, place(record));
        let is_last = line.members == 0;
        if was_head {
            self.refresh(now, needs, Some(&record.tool));
        }
        if let Some(line) = self.lines.get_mut(needs) {
            line.lanes.leave(&record.tool);
        }
        if is_last && let Some((needs, _)) = self.lines.remove_entry(needs) {
            self.gates.leave(&needs);
        }
    }

    /// The next task that is due, if any; the caller then calls [`Self::make_ready`], or moves it to its next line.
    pub(crate) fn pop_due(&mut self, wall: Wall) -> Option<TaskId> {
        self.delayed.first().filter(|(at, _)| *at <= wall)?;
        self.delayed.pop_first().map(|(_, task)| task)
    }

    /// A waiting task may start from here on.
    pub(crate) fn make_ready(&mut self, now: Now, record: &TaskRecord) {
        let needs = &*record.needs();
        let Some(line) = self.lines.get_mut(needs) else { unreachable!("task {} waits in no line", record.id) };
        if line.lanes.insert(&record.tool, place(record)) {
            self.refresh(now, needs, Some(&record.tool));
        }
    }

    /// Whether a present agent has the tool of this waiting task.
    pub(crate) fn is_stocked(&self, record: &TaskRecord) -> bool {
        self.lines.get(&*record.needs()).is_some_and(|line| line.lanes.is_stocked(&record.tool))
    }

    /// A run of a task begins: it passes its gates.
    pub(crate) fn start(&mut self, now: Now, needs: &Requirements) {
        self.pass(now, needs, |gates| gates.start(now.mono, needs));
    }

    /// A run began before this controller started; the time of its start is recorded separately.
    pub(crate) fn resume(&mut self, now: Now, needs: &Requirements) {
        self.pass(now, needs, |gates| gates.resume(needs));
    }

    /// A run has ended.
    pub(crate) fn end(&mut self, now: Now, needs: &Requirements) {
        self.pass(now, needs, |gates| gates.end(needs));
    }

    fn pass(&mut self, now: Now, needs: &Requirements, change: impl FnOnce(&mut Gates)) {
        if !needs.gates.is_empty() {
            change(&mut self.gates);
            self.refresh_gated(now, needs.gates.iter());
        }
    }

    /// Re-evaluates gates that may let more or fewer tasks pass than before.
    pub(crate) fn refresh_gated<'a>(&mut self, now: Now, gates: impl Iterator<Item = &'a Label>) {
        let mut lines = BTreeSet::new();
        for gate in gates {
            self.gates.review(now, gate);
            if gate.is_of_service() {
                lines.extend(self.lines.keys().cloned());
            } else {
                lines.extend(self.gates.lines(gate));
            }
        }
        for needs in lines {
            self.refresh(now, &needs, None);
        }
    }

    /// Opens or closes a line, and updates its head for the sets that serve the lane of `tool`, or for all sets if every
    /// lane may have changed.
    fn refresh(&mut self, now: Now, needs: &Requirements, tool: Option<&ToolName>) {
        let is_admitted = self.gates.admit(now, needs);
        let Some((needs, _)) = self.lines.get_key_value(needs) else { return };
        let needs = Arc::clone(needs);
        let Some(line) = self.lines.get_mut(&needs) else { return };
        let tool = tool.filter(|_| line.is_admitted == is_admitted);
        line.is_admitted = is_admitted;
        let sets = tool.map_or(self.sets.live(), |tool| line.lanes.servers(tool));
        for set in sets {
            let head = if is_admitted { line.lanes.first(*set) } else { None };
            let before = match head {
                Some(head) => line.open.insert(*set, head),
                None => line.open.remove(set),
            };
            if before == head {
                continue;
            }
            let open = self.open.entry(*set).or_default();
            if let Some(place) = before {
                open.remove(&(place, Arc::clone(&needs)));
            }
            if let Some(place) = head {
                open.insert((place, Arc::clone(&needs)));
            }
        }
    }

    /// An agent with this set is present.
    pub(crate) fn enter_set(&mut self, now: Now, set: SetId) {
        if self.sets.enter(set) {
            self.serve(now, set);
        }
    }

    /// An agent with this set is not present any more.
    pub(crate) fn leave_set(&mut self, now: Now, set: SetId) {
        if self.sets.leave(set) {
            self.open.remove(&set);
            for line in self.lines.values_mut() {
                line.open.remove(&set);
            }
            self.serve(now, set);
        }
    }

    /// The lanes that a set serves have changed.
    fn serve(&mut self, now: Now, set: SetId) {
        for line in self.lines.values_mut() {
            line.lanes.sets_have_changed(set, &self.sets);
        }
        let all: Vec<_> = self.lines.keys().cloned().collect();
        for needs in all {
            self.refresh(now, &needs, None);
        }
    }

    /// The best task for this agent, if it has told its tools.
    pub(crate) fn best_for(&self, id: &AgentId, agent: &Agent) -> Option<TaskId> {
        let mut open = self.open.get(&agent.tools?.set)?.iter();
        let suits = |needs: &Requirements| agent.offer.meets(needs) && needs.allow(id, || agent.about.host);
        open.find(|(_, needs)| suits(needs)).map(|(place, _)| place.task)
    }

    /// The first task that `agent_for` finds an agent for, with that agent. `sets` are the tool sets of parked agents.
    pub(crate) fn best_match<'a>(
        &self,
        sets: impl Iterator<Item = SetId>,
        agent_for: impl Fn(SetId, &Requirements, TaskId) -> Option<Suited<'a>>,
    ) -> Option<(TaskId, Suited<'a>)> {
        let first_of = |set| {
            let open: &BTreeSet<_> = self.open.get(&set)?;
            open.iter().find_map(|(place, needs)| Some((*place, agent_for(set, needs, place.task)?)))
        };
        // For each set that serves the overall best task, that task is also the set's own best one.
        sets.filter_map(first_of).min().map(|(place, suited)| (place.task, suited))
    }

    /// The first task of each tool in each open line that this set serves, with the requirements of the line.
    pub(crate) fn open_heads(&self, set: SetId) -> impl Iterator<Item = (TaskId, &Requirements)> {
        let lines = self.open.get(&set).into_iter().flatten().filter_map(|(_, needs)| self.lines.get_key_value(needs));
        lines.flat_map(move |(needs, line)| line.lanes.heads(set).map(|place| (place.task, &**needs)))
    }

    /// The number of the tasks with these requirements and this tool that could start, and the oldest of them.
    pub(crate) fn ready_alike(&self, needs: &Requirements, tool: &ToolName) -> Option<(usize, TaskId)> {
        self.lines.get(needs)?.lanes.ready_with(tool)
    }

    /// The end of the next delay.
    pub(crate) fn next_delay_end(&self) -> Option<Wall> {
        self.delayed.first().map(|(at, _)| *at)
    }

    /// The reason that holds up this waiting task. At most `before_max` tasks before it are counted.
    pub(crate) fn holdup(
        &self,
        now: Now,
        record: &TaskRecord,
        agents_with: AgentsWith<'_>,
        before_max: usize,
    ) -> Holdup {
        if let Some(since) = record.held {
            return Holdup::Held(since);
        }
        if let Some(term) = record.first_unmet() {
            return Holdup::After(term.clone(), record.unmet.len());
        }
        if let Some(Delay::Until(at)) = delay(record).filter(|_| !self.is_ready(record)) {
            return Holdup::NotBefore(at);
        }
        match self.gates.obstacle(now, &record.policy.needs) {
            Some((gate, GateVerdict::Closed(until))) if gate.is_of_service() => return Holdup::Paused(until),
            Some((gate, verdict)) => return Holdup::Gate(gate, verdict),
            None => {}
        }
        let needs = &*record.needs();
        if let Some((_, why)) = needs.parts().into_iter().find(|(part, _)| !agents_with(part, None)) {
            return why;
        }
        if self.sets.with(&record.tool).next().is_none() {
            return Holdup::without(&record.tool);
        }
        if !agents_with(needs, Some(&record.tool)) {
            return Holdup::ToolElsewhere;
        }
        // All tasks that could start count, whatever they require: priority and age apply across all lines.
        let servers = self.lines.get(needs).map_or(&[][..], |line| line.lanes.servers(&record.tool));
        let open = self.lines.iter().filter(|(needs, line)| line.is_admitted && agents_with(needs, None));
        let rivals = open.flat_map(|(_, line)| line.lanes.rivals(servers, place(record)));
        let before = rivals.take(before_max).count();
        let tells = |set: &SetId| self.sets.get(*set).is_some_and(|set| matches!(**set, ToolSet::Only(_)));
        let servers = match servers {
            _ if servers.len() == self.sets.live().len() => Servers::All,
            _ if !record.tool.is_archive() || servers.iter().all(tells) => Servers::Told,
            _ => Servers::Untold,
        };
        Holdup::Agents { before, servers, is_one_idle: false, blocked: None }
    }

    /// Number of waiting tasks that must pass this gate.
    pub(crate) fn waiting_at(&self, gate: &Label) -> usize {
        self.gates.lines(gate).filter_map(|needs| self.lines.get(&needs)).map(|line| line.members).sum()
    }

    /// Whether a task is in its line.
    pub(crate) fn is_ready(&self, record: &TaskRecord) -> bool {
        self.lines.get(&*record.needs()).is_some_and(|line| line.lanes.contains(&record.tool, place(record)))
    }

    /// Whether a task is delayed.
    fn is_delayed(&self, record: &TaskRecord) -> bool {
        matches!(delay(record), Some(Delay::Until(at)) if self.delayed.contains(&(at, record.id)))
    }

    pub(crate) fn sanity_check<'a>(&self, waiting: impl Iterator<Item = &'a TaskRecord>) {
        let (mut members, mut bytes) = (0, 0);
        for record in waiting {
            members += 1;
            bytes += record.bytes();
            let is_suspected = matches!(record.state, TaskState::OutOfContact { suspected: true, .. });
            let is_kept = record.held.is_some() || !record.unmet.is_empty() || is_suspected;
            let places = [is_kept, self.is_delayed(record), self.is_ready(record)];
            let count = places.iter().filter(|is| **is).count();
            assert_eq!(count, 1, "task {} is (held, blocked or suspected; delayed; ready) {places:?}", record.id);
        }
        assert_eq!(members, self.len, "the queue holds a task that does not wait");
        assert_eq!(bytes, self.bytes, "the bytes of the tasks that wait have drifted");
        let in_lines: usize = self.lines.values().map(|line| line.members).sum();
        assert_eq!(members, in_lines, "a line counts a task that does not wait");
        for (needs, line) in &self.lines {
            assert_eq!(line.lanes.sanity_check(&self.sets), line.members, "the lanes of the line {needs:?}");
            for set in self.sets.live() {
                let (open, first) = (line.open.get(set), line.lanes.first(*set));
                let Some(place) = open else {
                    let shut = first.is_none() || self.gates.may_be_shut(needs);
                    assert!(shut, "the line {needs:?} is closed without a gate");
                    continue;
                };
                assert_eq!(first, Some(*place), "the head of the line {needs:?} for {set:?}");
                let listed = self.open.get(set).is_some_and(|open| open.contains(&(*place, Arc::clone(needs))));
                assert!(listed, "the open line {needs:?} is not listed for {set:?}");
            }
        }
        let open: usize = self.lines.values().map(|line| line.open.len()).sum();
        assert_eq!(self.open.values().map(BTreeSet::len).sum::<usize>(), open, "open lines");
    }
}

/// Whether any agent may get tasks, meets these requirements and, if one is given, has this tool.
pub(crate) type AgentsWith<'a> = &'a dyn Fn(&Requirements, Option<&ToolName>) -> bool;

enum Delay {
    Until(Wall),
    Ready,
}

/// The delay with which a task begins to wait; that of a held or blocked task does not count.
fn delay(record: &TaskRecord) -> Option<Delay> {
    if record.held.is_some() || !record.unmet.is_empty() {
        return None;
    }
    match record.state {
        TaskState::OutOfContact { suspected: true, .. } => None,
        TaskState::Waiting { not_before: Some(at) } | TaskState::OutOfContact { not_before: Some(at), .. } => {
            Some(Delay::Until(at))
        }
        _ => Some(Delay::Ready),
    }
}

fn place(record: &TaskRecord) -> Place {
    Place { priority: Reverse(record.policy.priority), task: record.id }
}
