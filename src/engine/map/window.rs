//! The tasks whose ends are awaited or not yet printed, by the numbers of their lines, and the order in which their outputs
//! leave.

use std::collections::{BTreeMap, VecDeque};

use crate::types::TaskId;

/// See the [module](self). `T` is a result that is to be printed.
#[derive(Debug)]
pub(super) struct Window<T> {
    keeps_order: bool,
    slots: BTreeMap<u64, Slot<T>>,
    /// Without order: the results that can leave.
    ready: VecDeque<(u64, T)>,
}

#[derive(Debug)]
enum Slot<T> {
    Awaited { id: TaskId, is_from_before: bool },
    Done(T),
}

impl<T> Window<T> {
    pub(super) const fn new(keeps_order: bool) -> Self {
        Self { keeps_order, slots: BTreeMap::new(), ready: VecDeque::new() }
    }

    /// The number of tasks in it.
    pub(super) fn len(&self) -> usize {
        self.slots.len() + self.ready.len()
    }

    /// The first line with a task in it.
    pub(super) fn first(&self) -> Option<u64> {
        self.slots.first_key_value().map(|(number, _)| *number)
    }

    /// Adds a task. One from before may have finished in an earlier run of the map.
    pub(super) fn watch(&mut self, number: u64, id: TaskId, is_from_before: bool) {
        self.slots.insert(number, Slot::Awaited { id, is_from_before });
    }

    /// The task of a line whose end is awaited.
    pub(super) fn awaited(&self, number: u64) -> Option<(TaskId, bool)> {
        match self.slots.get(&number)? {
            Slot::Awaited { id, is_from_before } => Some((*id, *is_from_before)),
            Slot::Done(_) => None,
        }
    }

    /// The task has a result.
    pub(super) fn done(&mut self, number: u64, result: T) {
        if self.keeps_order {
            self.slots.insert(number, Slot::Done(result));
        } else {
            self.slots.remove(&number);
            self.ready.push_back((number, result));
        }
    }

    /// Nothing of the task is printed.
    pub(super) fn skip(&mut self, number: u64) {
        self.slots.remove(&number);
    }

    /// The next result to print. With order, only if no task of an earlier line is left, neither here nor from
    /// `lowest_outside` on.
    pub(super) fn pop(&mut self, lowest_outside: Option<u64>) -> Option<(u64, T)> {
        if !self.keeps_order {
            return self.ready.pop_front();
        }
        let first = self.slots.first_entry()?;
        let is_next = matches!(first.get(), Slot::Done(_)) && lowest_outside.is_none_or(|lowest| *first.key() < lowest);
        if !is_next {
            return None;
        }
        match first.remove_entry() {
            (number, Slot::Done(result)) => Some((number, result)),
            (_, Slot::Awaited { .. }) => None,
        }
    }

    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.ready.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn popped(window: &mut Window<&'static str>, outside: Option<u64>) -> Vec<(u64, &'static str)> {
        std::iter::from_fn(|| window.pop(outside)).collect()
    }

    #[test]
    fn results_leave_in_the_order_of_lines_or_of_ends() {
        for (keeps_order, expected) in [(true, [(1, "a"), (2, "b"), (4, "d")]), (false, [(4, "d"), (2, "b"), (1, "a")])]
        {
            let mut window = Window::new(keeps_order);
            (1..=4).for_each(|number| window.watch(number, TaskId::MIN, false));
            window.done(4, "d");
            window.done(2, "b");
            let mut left = popped(&mut window, None);
            window.done(1, "a");
            window.skip(3);
            left.extend(popped(&mut window, None));
            assert_eq!(left, expected);
            assert_eq!(window.len(), 0);
        }
    }

    #[test]
    fn a_result_waits_for_an_earlier_line_that_is_not_a_task_yet() {
        let mut window = Window::new(true);
        window.watch(2, TaskId::MIN, false);
        window.done(2, "b");
        assert_eq!(popped(&mut window, Some(1)), []);
        assert_eq!(popped(&mut window, Some(3)), [(2, "b")]);
    }
}
