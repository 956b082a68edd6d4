//! The whole queue in a few numbers, without a look at each waiting task.

use super::Queue;
use base::{TaskId, Wall};

impl Queue {
    /// Number of parts that [`Self::heads`] looks at.
    pub(crate) fn parts(&self) -> usize {
        self.lines.values().map(|line| line.lanes.len()).sum()
    }

    /// For each tool and each requirement: the first task that could start but for its gates and agents, and the number of such
    /// tasks.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (TaskId, usize)> {
        self.lines.values().flat_map(|line| line.lanes.ready())
    }

    /// The oldest task that could start but for its gates and agents.
    pub(crate) fn oldest(&self) -> Option<TaskId> {
        self.lines.values().filter_map(|line| line.lanes.oldest()).min()
    }

    /// The number of tasks that start at a certain moment, and the first of them.
    pub(crate) fn delays(&self) -> (usize, Option<(Wall, TaskId)>) {
        (self.delayed.len(), self.delayed.first().copied())
    }
}
