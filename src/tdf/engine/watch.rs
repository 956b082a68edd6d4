//! The entries of one set that a server has judged, and when each is due again. An observation of an entry holds as long as its
//! score is the same: every move of any component changes the score.

use std::collections::HashMap;

use base::tdf::TaskId;

#[derive(Clone, Copy, Debug)]
struct Entry {
    score: f64,
    first_seen: f64,
    look_again: f64,
    walk: u32,
}

/// The entries of one set. Moments are unix seconds.
#[derive(Debug, Default)]
pub struct Watch {
    entries: HashMap<TaskId, Entry>,
    walk: u32,
}

impl Watch {
    /// Begins a walk through the whole set.
    pub fn begin(&mut self) {
        self.walk = self.walk.wrapping_add(1);
    }

    /// Whether this entry of the walk is new or due.
    #[expect(clippy::float_cmp, reason = "an entry that was not touched has the same double")]
    pub fn is_due(&mut self, task: TaskId, score: f64, now: f64) -> bool {
        let walk = self.walk;
        let fresh = Entry { score, first_seen: now, look_again: now, walk };
        let entry = self.entries.entry(task).or_insert(fresh);
        if entry.score != score {
            *entry = fresh;
        }
        entry.walk = walk;
        entry.look_again <= now
    }

    /// When the entry was first seen as it is; `now` if it was not.
    #[must_use]
    pub fn first_seen(&self, task: TaskId, now: f64) -> f64 {
        self.entries.get(&task).map_or(now, |entry| entry.first_seen)
    }

    /// Sets when to look again.
    pub fn look_again(&mut self, task: TaskId, at: f64) {
        if let Some(entry) = self.entries.get_mut(&task) {
            entry.look_again = at;
        }
    }

    /// Ends a walk: an entry that it has not seen has left the set.
    pub fn end(&mut self) {
        let walk = self.walk;
        self.entries.retain(|_, entry| entry.walk == walk);
        self.entries.shrink_to(self.entries.len().saturating_mul(2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_looked_at_when_it_is_new_changed_or_due() {
        let (mut watch, task) = (Watch::default(), TaskId(1));
        watch.begin();
        assert!(watch.is_due(task, 5.0, 100.0));
        watch.look_again(task, 200.0);
        watch.end();
        watch.begin();
        assert!(!watch.is_due(task, 5.0, 150.0));
        assert_eq!(watch.first_seen(task, 150.0), 100.0);
        assert!(watch.is_due(task, 5.0, 200.0));
        watch.look_again(task, f64::INFINITY);
        assert!(watch.is_due(task, 6.0, 201.0));
        assert_eq!(watch.first_seen(task, 300.0), 201.0);
    }

    #[test]
    fn what_a_walk_does_not_see_is_forgotten() {
        let mut watch = Watch::default();
        watch.begin();
        assert!(watch.is_due(TaskId(1), 5.0, 100.0) && watch.is_due(TaskId(2), 5.0, 100.0));
        watch.end();
        watch.begin();
        assert!(watch.is_due(TaskId(2), 5.0, 101.0));
        watch.end();
        assert_eq!(watch.entries.len(), 1);
    }
}
