//! The tasks whose ends are awaited or not printed yet, by line number, and the order in which their outputs are printed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::WINDOW_MAX;
use base::TaskId;

/// See the [module](self). `T` is a result that is to be printed.
#[derive(Debug)]
pub(super) struct Window<T> {
    keeps_order: bool,
    /// Maximum number of tasks.
    max: usize,
    slots: BTreeMap<u64, Slot<T>>,
    /// The number of results.
    results: usize,
    /// Without order: the results that can be printed.
    ready: VecDeque<(u64, T)>,
    /// Lines whose task must be queried again: the query was refused for lack of room, or the service has lost track.
    unasked: BTreeSet<u64>,
}

#[derive(Debug)]
enum Slot<T> {
    Awaited { id: TaskId, way: Way },
    Done(T),
}

/// How the end of a task arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// With the ends of the job that the map follows.
    Followed,
    /// By a query that is parked until the task has finished: its end may have been told before the map knew its id.
    Asked,
    /// By a look: the task may have finished in an earlier run of the map.
    Looked,
}

impl<T> Window<T> {
    pub(super) fn new(keeps_order: bool) -> Self {
        let (slots, ready, unasked) = (BTreeMap::new(), VecDeque::new(), BTreeSet::new());
        Self { keeps_order, max: WINDOW_MAX, slots, results: 0, ready, unasked }
    }

    /// The number of tasks in it.
    pub(super) fn len(&self) -> usize {
        self.slots.len() + self.ready.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.max
    }

    /// The first line with a task in it.
    pub(super) fn first(&self) -> Option<u64> {
        self.slots.first_key_value().map(|(number, _)| *number)
    }

    /// The number of results in it.
    pub(super) const fn results(&self) -> usize {
        self.results
    }

    /// Adds a task, or changes how its end arrives.
    pub(super) fn watch(&mut self, number: u64, id: TaskId, way: Way) {
        self.slots.insert(number, Slot::Awaited { id, way });
    }

    /// The task of a line whose end is awaited.
    pub(super) fn awaited(&self, number: u64) -> Option<(TaskId, Way)> {
        match self.slots.get(&number)? {
            Slot::Awaited { id, way } => Some((*id, *way)),
            Slot::Done(_) => None,
        }
    }

    /// The query of a line was refused for lack of room. Returns `false` if the end of its task is not awaited.
    pub(super) fn refuse(&mut self, number: u64) -> bool {
        let is_awaited = self.awaited(number).is_some();
        if is_awaited {
            self.max = (self.len() / 2).max(1);
            self.unasked.insert(number);
        }
        is_awaited
    }

    /// Takes the first line whose task must be queried again.
    pub(super) fn pop_unasked(&mut self) -> Option<u64> {
        self.unasked.pop_first()
    }

    /// Queries the followed tasks from now on.
    pub(super) fn ask_for_followed(&mut self) {
        for (number, slot) in &mut self.slots {
            if let Slot::Awaited { way: way @ Way::Followed, .. } = slot {
                *way = Way::Asked;
                self.unasked.insert(*number);
            }
        }
    }

    /// The task has a result.
    pub(super) fn done(&mut self, number: u64, result: T) {
        self.results += 1;
        if self.keeps_order {
            self.slots.insert(number, Slot::Done(result));
        } else {
            self.slots.remove(&number);
            self.ready.push_back((number, result));
        }
    }

    /// Drops a task whose outputs are not printed.
    pub(super) fn skip(&mut self, number: u64) {
        self.slots.remove(&number);
    }

    /// The next result to print. With order, only if no task of an earlier line is left, neither here nor from
    /// `lowest_outside` on.
    pub(super) fn pop(&mut self, lowest_outside: Option<u64>) -> Option<(u64, T)> {
        if !self.keeps_order {
            let next = self.ready.pop_front();
            self.results -= usize::from(next.is_some());
            return next;
        }
        let first = self.slots.first_entry()?;
        let is_next = matches!(first.get(), Slot::Done(_)) && lowest_outside.is_none_or(|lowest| *first.key() < lowest);
        if !is_next {
            return None;
        }
        match first.remove_entry() {
            (number, Slot::Done(result)) => {
                self.results -= 1;
                Some((number, result))
            }
            (_, Slot::Awaited { .. }) => None,
        }
    }

    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.ready.clear();
        self.results = 0;
        self.unasked.clear();
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
            (1..=4).for_each(|number| window.watch(number, TaskId::MIN, Way::Followed));
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
        window.watch(2, TaskId::MIN, Way::Followed);
        window.done(2, "b");
        assert_eq!(popped(&mut window, Some(1)), []);
        assert_eq!(popped(&mut window, Some(3)), [(2, "b")]);
    }
}
