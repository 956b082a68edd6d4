//! The tasks that wait: whose turn it is, and what holds the others up.
//!
//! | a task that waits is | until |
//! |---|---|
//! | held | somebody releases it |
//! | delayed | its time has come: `__START_AFTER__`, the delay of a retry, a defer |
//! | ready | an agent takes it; higher priority first, then the older one |
//!
//! Tasks with equal needs (gates and tags) stand in one line. A line is open while every one of its gates lets one more pass;
//! of the open lines, the one with the best head comes first. So a task whose gate is closed holds up nobody who does not name
//! that gate. Cost: O(log n) in the tasks. A choice looks at the open lines in their order until one suits; there are as many
//! as there are different needs, and those have a limit.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::gates::Gates;
use crate::types::{AgentId, Holdup, Label, Labels, Needs, Now, TaskId, TaskRecord, TaskState, Wall};

/// The place of a task in its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    priority: Reverse<i8>,
    task: TaskId,
}

/// The tasks with equal needs.
#[derive(Debug, Default)]
struct Line {
    ready: BTreeSet<Place>,
    /// All that wait, the delayed and held ones too.
    members: usize,
    /// The head, while the line is open.
    open: Option<Place>,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    lines: BTreeMap<Arc<Needs>, Line>,
    open: BTreeSet<(Place, Arc<Needs>)>,
    delayed: BTreeSet<(Wall, TaskId)>,
    pub(super) gates: Gates,
    len: usize,
    bytes: usize,
}

impl Queue {
    /// How many tasks wait.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that the tasks which wait cost.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many different needs wait, unless these are among them.
    pub(super) fn other_needs(&self, needs: &Needs) -> usize {
        if self.lines.contains_key(needs) { 0 } else { self.lines.len() }
    }

    /// A task begins to wait.
    pub(super) fn enter(&mut self, now: Now, record: &TaskRecord) {
        let needs = &record.policy.needs;
        if !self.lines.contains_key(needs) {
            let needs = Arc::new(needs.clone());
            self.gates.join(now, &needs);
            self.lines.insert(needs, Line::default());
        }
        if let Some(line) = self.lines.get_mut(needs) {
            line.members += 1;
        }
        self.len += 1;
        self.bytes += record.bytes();
        match delay(record) {
            None => {}
            Some(Delay::Until(at)) => {
                self.delayed.insert((at, record.id));
            }
            Some(Delay::Ready) => self.make_ready(now, record),
        }
    }

    /// A task no longer waits; `record` is as it was while it did.
    pub(super) fn leave(&mut self, now: Now, record: &TaskRecord) {
        self.len -= 1;
        self.bytes -= record.bytes();
        if let Some(Delay::Until(at)) = delay(record) {
            self.delayed.remove(&(at, record.id));
        }
        let needs = &record.policy.needs;
        let Some(line) = self.lines.get_mut(needs) else { unreachable!("task {} waits in no line", record.id) };
        line.members -= 1;
        let was_ready = line.ready.remove(&place(record));
        let is_last = line.members == 0;
        if was_ready {
            self.refresh(now, needs);
        }
        if is_last && let Some((needs, _)) = self.lines.remove_entry(needs) {
            self.gates.part(&needs);
        }
    }

    /// The delayed task whose time has come, if there is one; it is [`Self::make_ready`] then.
    pub(super) fn pop_due(&mut self, wall: Wall) -> Option<TaskId> {
        self.delayed.first().filter(|(at, _)| *at <= wall)?;
        self.delayed.pop_first().map(|(_, task)| task)
    }

    /// A task that waits may start from here on.
    pub(super) fn make_ready(&mut self, now: Now, record: &TaskRecord) {
        let needs = &record.policy.needs;
        let Some(line) = self.lines.get_mut(needs) else { unreachable!("task {} waits in no line", record.id) };
        let place = place(record);
        line.ready.insert(place);
        // Most tasks queue up behind others: then nothing changes for the line.
        if line.ready.first() == Some(&place) {
            self.refresh(now, needs);
        }
    }

    /// A run of a task begins: it passes its gates.
    pub(super) fn start(&mut self, now: Now, needs: &Needs) {
        self.pass(now, needs, |gates| gates.start(now.mono, needs));
    }

    /// A run had begun before the controller did; when, is noted apart from it.
    pub(super) fn resume(&mut self, now: Now, needs: &Needs) {
        self.pass(now, needs, |gates| gates.resume(needs));
    }

    /// A run is over.
    pub(super) fn end(&mut self, now: Now, needs: &Needs) {
        self.pass(now, needs, |gates| gates.end(needs));
    }

    fn pass(&mut self, now: Now, needs: &Needs, change: impl FnOnce(&mut Gates)) {
        if !needs.gates.is_empty() {
            change(&mut self.gates);
            self.refresh_gated(now, needs.gates.iter());
        }
    }

    /// Gates that may let others pass than before.
    pub(super) fn refresh_gated<'a>(&mut self, now: Now, gates: impl Iterator<Item = &'a Label>) {
        let mut lines = BTreeSet::new();
        for gate in gates {
            self.gates.review(now, gate);
            lines.extend(self.gates.lines(gate));
        }
        for needs in lines {
            self.refresh(now, &needs);
        }
    }

    /// Opens or closes a line, and notes who is its head.
    fn refresh(&mut self, now: Now, needs: &Needs) {
        let admitted = self.gates.admit(now, needs);
        let Some((needs, _)) = self.lines.get_key_value(needs) else { return };
        let needs = Arc::clone(needs);
        let Some(line) = self.lines.get_mut(&needs) else { return };
        let head = if admitted { line.ready.first().copied() } else { None };
        let before = std::mem::replace(&mut line.open, head);
        if before != head {
            if let Some(place) = before {
                self.open.remove(&(place, Arc::clone(&needs)));
            }
            if let Some(place) = head {
                self.open.insert((place, needs));
            }
        }
    }

    /// The task that an agent with these tags gets.
    pub(super) fn best_for(&self, tags: &Labels) -> Option<TaskId> {
        self.open.iter().find(|(_, needs)| needs.tags.are_within(tags)).map(|(place, _)| place.task)
    }

    /// The task whose turn it is and that `agent_for` finds an agent for, with that agent.
    pub(super) fn best_match<'a>(
        &self,
        agent_for: impl Fn(&Labels) -> Option<&'a AgentId>,
    ) -> Option<(TaskId, &'a AgentId)> {
        self.open.iter().find_map(|(place, needs)| Some((place.task, agent_for(&needs.tags)?)))
    }

    /// When the next delay is over.
    pub(super) fn next_delay_end(&self) -> Option<Wall> {
        self.delayed.first().map(|(at, _)| *at)
    }

    /// What holds up this task, which waits, where `agents_with` says which tags there are agents with.
    pub(super) fn holdup(&self, now: Now, record: &TaskRecord, agents_with: impl Fn(&Labels) -> bool) -> Holdup {
        /// A person wants to know whether it is many, not how many exactly.
        const BEFORE_MAX: usize = 10_000;
        if let Some(since) = record.held {
            return Holdup::Held(since);
        }
        if let Some(Delay::Until(at)) = delay(record).filter(|_| !self.is_ready(record)) {
            return Holdup::NotBefore(at);
        }
        if let Some((gate, verdict)) = self.gates.obstacle(now, &record.policy.needs) {
            return Holdup::Gate(gate, verdict);
        }
        if !agents_with(&record.policy.needs.tags) {
            return Holdup::NoSuchAgent;
        }
        // Whatever they require, as long as they could start: priority and age count across all lines.
        let open = self.lines.iter().filter(|(needs, line)| line.open.is_some() && agents_with(&needs.tags));
        let before = open.flat_map(|(_, line)| line.ready.range(..place(record))).take(BEFORE_MAX).count();
        Holdup::Agents { before }
    }

    /// How many wait that must pass this gate.
    pub(super) fn waiting_at(&self, gate: &Label) -> usize {
        self.gates.lines(gate).filter_map(|needs| self.lines.get(&needs)).map(|line| line.members).sum()
    }

    /// Whether a task is in its line.
    pub(super) fn is_ready(&self, record: &TaskRecord) -> bool {
        self.lines.get(&record.policy.needs).is_some_and(|line| line.ready.contains(&place(record)))
    }

    /// Whether a task is delayed.
    fn is_delayed(&self, record: &TaskRecord) -> bool {
        matches!(delay(record), Some(Delay::Until(at)) if self.delayed.contains(&(at, record.id)))
    }

    pub(super) fn sanity_check<'a>(&self, waiting: impl Iterator<Item = &'a TaskRecord>) {
        let (mut members, mut bytes) = (0, 0);
        for record in waiting {
            members += 1;
            bytes += record.bytes();
            let places = [record.held.is_some(), self.is_delayed(record), self.is_ready(record)];
            let count = places.iter().filter(|is| **is).count();
            assert_eq!(count, 1, "task {} is (held, delayed, ready) {places:?}", record.id);
        }
        assert_eq!(members, self.len, "the queue holds a task that does not wait");
        assert_eq!(bytes, self.bytes, "the bytes of the tasks that wait have drifted");
        let in_lines: usize = self.lines.values().map(|line| line.members).sum();
        assert_eq!(members, in_lines, "a line counts a task that does not wait");
        for (needs, line) in &self.lines {
            match line.open {
                Some(place) => {
                    assert_eq!(line.ready.first(), Some(&place), "the head of the line {needs:?}");
                    assert!(self.open.contains(&(place, Arc::clone(needs))), "the open line {needs:?} is not listed");
                }
                None => assert!(
                    line.ready.is_empty() || self.gates.may_be_shut(needs),
                    "the line {needs:?} is closed without a gate"
                ),
            }
        }
        assert_eq!(self.open.len(), self.lines.values().filter(|line| line.open.is_some()).count(), "open lines");
    }
}

enum Delay {
    Until(Wall),
    Ready,
}

/// How a task begins to wait; a held one does not count its time.
fn delay(record: &TaskRecord) -> Option<Delay> {
    if record.held.is_some() {
        return None;
    }
    match record.state {
        TaskState::Waiting { not_before: Some(at) } => Some(Delay::Until(at)),
        _ => Some(Delay::Ready),
    }
}

fn place(record: &TaskRecord) -> Place {
    Place { priority: Reverse(record.policy.priority), task: record.id }
}
