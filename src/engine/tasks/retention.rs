//! Retention of finished tasks: whole families, by wall time, within a bound of bytes (docs/sources/controller.md, 4.3).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::turn::effect::Timer;
use crate::{Controller, LOOK_INTERVAL};
use base::{Now, Phase, TaskId, TaskRecord, Wall};

/// Maximum number of tasks that one turn forgets, so that a day's worth of them, or those of one large graph, do not block the
/// service.
const TASKS_PER_TURN: usize = 500;

/// Shortest time between two checks, for a retention of zero.
const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(500);

/// The finished families, by the time at which they are forgotten.
#[derive(Debug, Default)]
pub(crate) struct RetainedFamilies {
    until: BTreeSet<(Wall, TaskId)>,
    until_of: BTreeMap<TaskId, Wall>,
    bytes_of: BTreeMap<TaskId, usize>,
    bytes: usize,
    /// The members of families that are being forgotten.
    leaving: VecDeque<TaskId>,
}

impl RetainedFamilies {
    pub(crate) fn len(&self) -> usize {
        self.until.len()
    }

    /// A task is reopened, and with it the family of this root.
    pub(crate) fn reopened(&mut self, task: TaskId, root: TaskId) {
        self.bytes -= self.bytes_of.remove(&task).unwrap_or_default();
        if let Some(until) = self.until_of.remove(&root) {
            self.until.remove(&(until, root));
        }
    }

    pub(crate) fn roots(&self) -> impl Iterator<Item = TaskId> {
        self.until.iter().map(|(_, root)| *root)
    }

    pub(crate) fn sanity_check(&self) {
        assert_eq!(self.bytes, self.bytes_of.values().sum::<usize>(), "the bytes of kept tasks have drifted");
    }
}

impl Controller {
    /// A task has finished, at `at`. If its whole family has, the family is kept from now on.
    pub(crate) fn keep_family(&mut self, now: Now, task: TaskId, at: Wall) {
        let of_graph = || self.graphs.of_root(task).map_or(0, |graph| graph.bytes);
        let bytes = self.tasks.get(task).map_or_else(of_graph, TaskRecord::bytes);
        self.tasks.retained.bytes_of.insert(task, bytes);
        self.tasks.retained.bytes += bytes;
        if let Some(root) = self.tasks.families.finished(task) {
            let until = at + self.settings.keep;
            self.tasks.retained.until.insert((until, root));
            self.tasks.retained.until_of.insert(root, until);
            let over = self.tasks.retained.bytes > self.settings.keep_bytes_max;
            if over {
                self.turn.set_timer(Timer::Retention, now.mono);
            } else if !self.turn.has_timer(&Timer::Retention) {
                self.turn.set_timer(Timer::Retention, now.mono + self.next_look());
            }
        }
    }

    /// Forgets families that are too old or exceed the bound.
    pub(crate) fn retain(&mut self, now: Now) {
        if self.relations.backlog.has_ends() {
            // Tasks that wait for an ended one have not all learned of its end.
            return self.turn.set_timer(Timer::Retention, now.mono);
        }
        for _ in 0..TASKS_PER_TURN {
            if let Some(member) = self.tasks.retained.leaving.pop_front() {
                self.forget(now, member);
                continue;
            }
            let over = self.tasks.retained.bytes > self.settings.keep_bytes_max;
            let Some((until, root)) =
                self.tasks.retained.until.first().copied().filter(|(until, _)| over || *until <= now.wall)
            else {
                break;
            };
            self.tasks.retained.until.remove(&(until, root));
            self.tasks.retained.until_of.remove(&root);
            if let Some(later) = self.awaited_until(now, root).filter(|later| !over && until < *later) {
                self.tasks.retained.until.insert((later, root));
                self.tasks.retained.until_of.insert(root, later);
                continue;
            }
            self.tasks.retained.leaving.extend(self.tasks.families.remove(root));
        }
        let due = self.tasks.retained.until.first().is_some_and(|(until, _)| *until <= now.wall);
        if due
            || !self.tasks.retained.leaving.is_empty()
            || self.tasks.retained.bytes > self.settings.keep_bytes_max && self.tasks.retained.len() > 0
        {
            self.turn.set_timer(Timer::Retention, now.mono);
        } else if self.tasks.retained.len() > 0 {
            self.turn.set_timer(Timer::Retention, now.mono + self.next_look());
        }
    }

    /// Forgets a finished family before its time: members leave at once, in slices.
    pub(crate) fn forget_family(&mut self, now: Now, root: TaskId) {
        if let Some(until) = self.tasks.retained.until_of.remove(&root) {
            self.tasks.retained.until.remove(&(until, root));
        }
        self.tasks.retained.leaving.extend(self.tasks.families.remove(root));
        self.turn.set_timer(Timer::Retention, now.mono);
    }

    /// Forgets one member of a family. A task that was reopened meanwhile stays, as a family of its own.
    fn forget(&mut self, now: Now, member: TaskId) {
        match self.tasks.get(member).map(TaskRecord::phase) {
            Some(Phase::Finished) => drop(self.remove_task(now, member)),
            Some(_) => return,
            None => self.forget_graph(member),
        }
        self.stop_pushing_again(member);
        self.tasks.retained.bytes -= self.tasks.retained.bytes_of.remove(&member).unwrap_or_default();
    }

    /// The time until the next check: at most the configured retention.
    fn next_look(&self) -> Duration {
        self.settings.keep.clamp(LOOK_INTERVAL_MIN, LOOK_INTERVAL)
    }
}
