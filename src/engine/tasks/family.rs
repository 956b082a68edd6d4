//! Parents and children: the tasks that end with another one, and the families that have finished.
//!
//! A task without a family costs nothing here.

use std::collections::BTreeMap;

use base::TaskId;

#[derive(Debug, Default)]
pub(crate) struct Families {
    children: BTreeMap<TaskId, Vec<TaskId>>,
    /// The eldest ancestor of each child.
    roots: BTreeMap<TaskId, TaskId>,
    /// Number of unfinished members of a family, by its root. A family without unfinished members has no entry.
    unfinished: BTreeMap<TaskId, usize>,
}

impl Families {
    /// Adds a child of a parent that has not finished.
    pub(crate) fn add(&mut self, child: TaskId, parent: TaskId) {
        let root = self.root(parent);
        self.roots.insert(child, root);
        self.children.entry(parent).or_default().push(child);
        // The root itself is the first member.
        *self.unfinished.entry(root).or_insert(1) += 1;
    }

    /// Whether a task has relatives.
    pub(crate) fn has(&self, task: TaskId) -> bool {
        self.roots.contains_key(&task) || self.children.contains_key(&task)
    }

    /// The eldest ancestor of a task, or the task itself if it has none.
    pub(crate) fn root(&self, task: TaskId) -> TaskId {
        self.roots.get(&task).copied().unwrap_or(task)
    }

    /// A task has finished. Returns the root if its whole family has.
    pub(crate) fn finished(&mut self, task: TaskId) -> Option<TaskId> {
        let root = self.root(task);
        let Some(unfinished) = self.unfinished.get_mut(&root) else { return Some(root) };
        *unfinished -= 1;
        if *unfinished > 0 {
            return None;
        }
        self.unfinished.remove(&root);
        Some(root)
    }

    /// A finished task is reopened.
    pub(crate) fn reopened(&mut self, task: TaskId) {
        if self.has(task) {
            *self.unfinished.entry(self.root(task)).or_insert(0) += 1;
        }
    }

    /// All descendants of a task, parents before their children. It does not recurse, because a chain may be long.
    pub(crate) fn descendants(&self, task: TaskId) -> Vec<TaskId> {
        let mut found: Vec<TaskId> = self.children.get(&task).cloned().unwrap_or_default();
        let mut next = 0;
        while let Some(&member) = found.get(next) {
            found.extend(self.children.get(&member).into_iter().flatten());
            next += 1;
        }
        found
    }

    /// Removes a whole family, finished or withdrawn, and returns its members, the root first.
    pub(crate) fn remove(&mut self, root: TaskId) -> Vec<TaskId> {
        let mut members = vec![root];
        members.extend(self.descendants(root));
        for member in &members {
            self.children.remove(member);
            self.roots.remove(member);
        }
        self.unfinished.remove(&root);
        members
    }

    /// Whether any member of the family of this root has not finished.
    pub(crate) fn is_open(&self, root: TaskId) -> bool {
        self.unfinished.contains_key(&root)
    }

    /// Each family with unfinished members: its root and their number.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = (TaskId, usize)> {
        self.unfinished.iter().map(|(root, count)| (*root, *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Wall;

    fn task(number: u64) -> TaskId {
        TaskId::new(Wall::from_micros(number), [0; TaskId::SUFFIX_LEN])
    }

    #[test]
    fn a_family_is_finished_with_its_last_member() {
        let mut families = Families::default();
        families.add(task(2), task(1));
        families.add(task(3), task(2));
        assert_eq!(families.finished(task(1)), None);
        assert_eq!(families.finished(task(3)), None);
        assert_eq!(families.finished(task(2)), Some(task(1)));
        assert_eq!(families.remove(task(1)), [task(1), task(2), task(3)]);
        assert_eq!(families.finished(task(9)), Some(task(9)));
    }

    /// A long chain must not overflow the stack by recursion (docs/design/hazards.md, A12).
    #[test]
    fn a_chain_of_a_hundred_thousand_is_walked() {
        let mut families = Families::default();
        for number in 1..100_000 {
            families.add(task(number + 1), task(number));
        }
        assert_eq!(families.descendants(task(1)).len(), 99_999);
    }
}
