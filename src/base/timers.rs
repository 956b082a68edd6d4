//! Deadlines as data: a table from reasons to moments.

use std::collections::{BTreeMap, BTreeSet};

use crate::Mono;

/// The deadlines of one engine. Each reason has at most one. All operations are O(log n).
#[derive(Clone, Debug)]
pub struct Timers<K> {
    by_time: BTreeSet<(Mono, K)>,
    by_reason: BTreeMap<K, Mono>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { by_time: BTreeSet::new(), by_reason: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> Timers<K> {
    /// Sets or moves a deadline.
    pub fn set(&mut self, reason: K, at: Mono) {
        self.clear(&reason);
        self.by_time.insert((at, reason.clone()));
        self.by_reason.insert(reason, at);
    }

    /// Sets, moves or removes a deadline.
    pub fn put(&mut self, reason: K, at: Option<Mono>) {
        match at {
            Some(at) => self.set(reason, at),
            None => self.clear(&reason),
        }
    }

    /// Sets a deadline, unless one at least as early is set. A deadline that is often postponed is then moved only when
    /// it is reached, and the owner sets the real one.
    pub fn set_earlier(&mut self, reason: K, at: Mono) {
        if self.by_reason.get(&reason).is_none_or(|set| at < *set) {
            self.set(reason, at);
        }
    }

    /// The deadline for this reason.
    pub fn get(&self, reason: &K) -> Option<Mono> {
        self.by_reason.get(reason).copied()
    }

    /// Removes a deadline, if there is one.
    pub fn clear(&mut self, reason: &K) {
        if let Some((reason, at)) = self.by_reason.remove_entry(reason) {
            self.by_time.remove(&(at, reason));
        }
    }

    /// Whether there is a deadline for this reason.
    pub fn is_set(&self, reason: &K) -> bool {
        self.by_reason.contains_key(reason)
    }

    /// The nearest deadline.
    pub fn next(&self) -> Option<(Mono, &K)> {
        self.by_time.first().map(|(at, reason)| (*at, reason))
    }

    /// Removes and returns the nearest deadline if it is due.
    pub fn pop_due(&mut self, now: Mono) -> Option<K> {
        self.next().filter(|(at, _)| *at <= now)?;
        let (_, reason) = self.by_time.pop_first()?;
        self.by_reason.remove(&reason);
        Some(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn deadlines_come_in_order_and_only_once() {
        let start = Mono::from_nanos(0);
        let at = |millis| start + Duration::from_millis(millis);
        let mut timers = Timers::default();
        timers.set("late", at(20));
        timers.set("early", at(30));
        timers.set("early", at(10));
        timers.set("gone", at(5));
        timers.clear(&"gone");
        assert_eq!(timers.next(), Some((at(10), &"early")));
        assert_eq!(timers.pop_due(at(9)), None);
        assert_eq!(timers.pop_due(at(25)), Some("early"));
        assert_eq!(timers.pop_due(at(25)), Some("late"));
        assert_eq!(timers.pop_due(at(25)), None);
        assert!(!timers.is_set(&"early"));
    }

    #[test]
    fn a_deadline_that_may_only_come_earlier_does_not_move_back() {
        let at = |millis| Mono::from_nanos(0) + Duration::from_millis(millis);
        let mut timers = Timers::default();
        for (millis, expected) in [(20, 20), (30, 20), (10, 10), (10, 10)] {
            timers.set_earlier("a", at(millis));
            assert_eq!(timers.next(), Some((at(expected), &"a")));
        }
        assert_eq!(timers.pop_due(at(10)), Some("a"));
        assert_eq!(timers.next(), None, "one deadline for each reason");
    }
}
