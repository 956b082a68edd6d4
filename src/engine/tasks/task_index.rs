//! An index of tasks by a text of their submitters: the given id, or the key of the submit.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use base::TaskId;

/// The tasks by such a text, called a name here. A name may belong to several tasks; a task has at most one.
#[derive(Debug, Default)]
pub(crate) struct TaskIndex {
    by_name: BTreeSet<(Arc<str>, TaskId)>,
    names: BTreeMap<TaskId, Arc<str>>,
}

impl TaskIndex {
    pub(crate) fn insert(&mut self, name: Option<&str>, task: TaskId) {
        if let Some(name) = name {
            let name: Arc<str> = name.into();
            self.by_name.insert((Arc::clone(&name), task));
            self.names.insert(task, name);
        }
    }

    pub(crate) fn remove(&mut self, task: TaskId) {
        if let Some(name) = self.names.remove(&task) {
            self.by_name.remove(&(name, task));
        }
    }

    /// Whether a task has a name.
    pub(crate) fn has(&self, task: TaskId) -> bool {
        self.names.contains_key(&task)
    }

    /// The tasks with this name that are older than `before`, newest first.
    pub(crate) fn get<'a>(&'a self, name: &str, before: Option<TaskId>) -> impl Iterator<Item = TaskId> + use<'a> {
        let name: Arc<str> = name.into();
        let oldest = Bound::Included((Arc::clone(&name), TaskId::MIN));
        let newest = match before {
            Some(before) => Bound::Excluded((name, before)),
            None => Bound::Included((name, TaskId::MAX)),
        };
        self.by_name.range((oldest, newest)).rev().map(|(_, task)| *task)
    }

    pub(crate) fn sanity_check(&self, exists: impl Fn(TaskId) -> bool) {
        assert_eq!(self.by_name.len(), self.names.len(), "the two indexes of names differ");
        for (name, task) in &self.by_name {
            assert!(exists(*task), "the name {name} leads to the forgotten task {task}");
        }
    }
}
