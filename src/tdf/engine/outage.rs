//! An outage of Redis, which does not answer or refuses: the pauses between calls, and the log lines.

use std::time::Duration;

use base::Mono;

/// The first and the longest pause between two calls during an outage. After it, a renewal must arrive before the lease of a run
/// counts as lost.
pub(super) const RETRY_FIRST: Duration = Duration::from_millis(100);
pub(super) const RETRY_MAX: Duration = Duration::from_secs(1);

/// Minimum time before another reason is logged: a connection may fail in a new way at each attempt.
pub(super) const LOG_OTHER_AFTER: Duration = Duration::from_secs(60);

/// Time before the same reason is logged again: it may need a person, and logs are rotated.
pub(super) const LOG_AGAIN_AFTER: Duration = Duration::from_hours(1);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Outage(Option<Failing>);

#[derive(Debug)]
struct Failing {
    /// The pause after the next call that fails.
    pause: Duration,
    logged: String,
    logged_at: Mono,
}

impl Outage {
    /// Whether the last call has failed.
    pub(super) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The pause after the next call that fails.
    pub(super) fn pause(&self) -> Duration {
        self.0.as_ref().map_or(RETRY_FIRST, |failing| failing.pause)
    }

    /// A call has failed for this reason. Returns the pause before the next attempt, and whether the reason is to be logged.
    pub(super) fn fail(&mut self, now: Mono, reason: &str) -> (Duration, bool) {
        let pause = self.pause();
        let last = self.0.take();
        let is_new = last.as_ref().is_none_or(|last| {
            let after = if last.logged == reason { LOG_AGAIN_AFTER } else { LOG_OTHER_AFTER };
            last.logged_at + after <= now
        });
        let (logged, logged_at) = match last.filter(|_| !is_new) {
            Some(last) => (last.logged, last.logged_at),
            None => (reason.to_owned(), now),
        };
        self.0 = Some(Failing { pause: (pause * 2).min(RETRY_MAX), logged, logged_at });
        (pause, is_new)
    }

    /// A call was answered. Returns whether that ends an outage.
    pub(super) fn end(&mut self) -> bool {
        self.0.take().is_some()
    }
}
