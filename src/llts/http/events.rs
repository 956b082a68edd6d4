//! Recent changes of tasks, for clients that read them from a given number on.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use base::TaskId;

/// Cost of a change besides its message, in bytes.
const EVENT_BYTES: usize = 96;

/// One change of a task.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) number: u64,
    pub(super) task: TaskId,
    /// The TASK/STATUS message.
    pub(super) message: Arc<str>,
    /// The same without commands, for listeners that may not see them.
    pub(super) hidden: Arc<str>,
}

impl Event {
    fn bytes(&self) -> usize {
        let hidden = if Arc::ptr_eq(&self.message, &self.hidden) { 0 } else { self.hidden.len() };
        EVENT_BYTES + self.message.len() + hidden
    }
}

/// The latest changes, within a bound of bytes. The oldest are dropped.
#[derive(Debug)]
pub(super) struct Events {
    /// Tells the numbers of this start from those of another one.
    life: u64,
    buffer: Mutex<EventBuffer>,
    bytes_max: usize,
    /// Whether changes are kept: from the start on, or since the first client has asked for them.
    is_kept: AtomicBool,
    /// Wakes listeners for a new change.
    news: Notify,
    /// Counts the listeners: each holds a copy.
    listeners: Arc<()>,
}

#[derive(Debug, Default)]
struct EventBuffer {
    events: VecDeque<Event>,
    bytes: usize,
    /// The number of the latest change.
    last: u64,
}

/// The changes from a number on.
#[derive(Debug)]
pub(super) enum After {
    /// The next changes; empty if there are none yet.
    Events(Vec<Event>),
    /// Some of the requested changes were dropped; this is the oldest that is still kept.
    Gap(u64),
}

impl Events {
    pub(super) fn new(bytes_max: usize, is_kept: bool) -> Self {
        Self {
            life: rand::random(),
            buffer: Mutex::default(),
            bytes_max,
            is_kept: AtomicBool::new(is_kept),
            news: Notify::new(),
            listeners: Arc::default(),
        }
    }

    /// Keeps changes from now on.
    pub(super) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// Whether to add the change with this number. If not, it counts as dropped.
    pub(super) fn is_wanted(&self, number: u64) -> bool {
        let is_kept = self.is_kept.load(Ordering::Relaxed);
        if !is_kept {
            self.buffer().last = number;
        }
        is_kept
    }

    /// A mark that counts as one listener while it is held.
    pub(super) fn listener(&self) -> Arc<()> {
        Arc::clone(&self.listeners)
    }

    /// Whether a stream of events is open.
    pub(super) fn has_listeners(&self) -> bool {
        Arc::strong_count(&self.listeners) > 1
    }

    /// The id of the event with this number.
    pub(super) fn id_of(&self, number: u64) -> String {
        format!("{:x}-{number}", self.life)
    }

    /// The number in the id of an event: `None` for an invalid id, and `Some(None)` for an id of another start.
    pub(super) fn number_of(&self, id: &str) -> Option<Option<u64>> {
        let (life, number) = id.split_once('-')?;
        let number = number.parse().ok()?;
        Some((life == format!("{:x}", self.life)).then_some(number))
    }

    fn buffer(&self) -> MutexGuard<'_, EventBuffer> {
        // No code that holds the lock can panic half-way.
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, event: Event) {
        let mut buffer = self.buffer();
        buffer.last = event.number;
        buffer.bytes += event.bytes();
        buffer.events.push_back(event);
        while buffer.bytes > self.bytes_max
            && let Some(oldest) = buffer.events.pop_front()
        {
            buffer.bytes -= oldest.bytes();
        }
        drop(buffer);
        self.news.notify_waiters();
    }

    /// The number of the latest change; 0 before the first.
    pub(super) fn last(&self) -> u64 {
        self.buffer().last
    }

    /// At most `max` of the changes after this number.
    pub(super) fn after(&self, number: u64, max: usize) -> After {
        let buffer = self.buffer();
        let first = buffer.events.front().map_or(buffer.last + 1, |event| event.number);
        if number + 1 < first {
            return After::Gap(first);
        }
        let skipped = usize::try_from(number + 1 - first).unwrap_or(usize::MAX);
        After::Events(buffer.events.iter().skip(skipped).take(max).cloned().collect())
    }

    /// Waits until there is a change after this number.
    pub(super) async fn wait(&self, number: u64) {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            // From here on no notification is missed.
            news.as_mut().enable();
            if self.last() > number {
                return;
            }
            news.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Wall;

    fn event(number: u64) -> Event {
        Event {
            number,
            task: TaskId::new(Wall::from_micros(number), [0; 5]),
            message: "x".repeat(404).into(),
            hidden: "".into(),
        }
    }

    fn numbers(after: After) -> Result<Vec<u64>, u64> {
        match after {
            After::Events(events) => Ok(events.iter().map(|event| event.number).collect()),
            After::Gap(first) => Err(first),
        }
    }

    #[test]
    fn the_oldest_give_way_and_a_gap_is_told() {
        let events = Events::new(3 * 500, true);
        assert_eq!(numbers(events.after(0, 10)), Ok(vec![]));
        (1..=2).for_each(|number| events.add(event(number)));
        assert_eq!(numbers(events.after(0, 10)), Ok(vec![1, 2]));
        (3..=5).for_each(|number| events.add(event(number)));
        assert_eq!(numbers(events.after(0, 10)), Err(3));
        assert_eq!(numbers(events.after(2, 10)), Ok(vec![3, 4, 5]));
        assert_eq!(numbers(events.after(2, 2)), Ok(vec![3, 4]));
        assert_eq!(numbers(events.after(5, 10)), Ok(vec![]));
        assert_eq!(events.last(), 5);
    }

    #[test]
    fn before_the_first_listener_changes_are_counted_only() {
        let events = Events::new(3 * 500, false);
        let pass = |number| {
            if events.is_wanted(number) {
                events.add(event(number));
            }
        };
        (1..=3).for_each(pass);
        assert_eq!((events.last(), numbers(events.after(3, 10))), (3, Ok(vec![])));
        assert_eq!(numbers(events.after(0, 10)), Err(4), "they are as good as dropped");
        events.keep();
        (4..=5).for_each(pass);
        assert_eq!(numbers(events.after(3, 10)), Ok(vec![4, 5]));
    }
}
