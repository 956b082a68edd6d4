//! A Redis that does not answer, or refuses: when the calls are made again, and what is said of it.

use std::time::Duration;

use base::Mono;

/// Between two calls while Redis is away: the first, and the longest. A Redis that comes back must hear of a run before its lease
/// counts as lost.
pub(super) const RETRY_FIRST: Duration = Duration::from_millis(100);
pub(super) const RETRY_MAX: Duration = Duration::from_secs(1);

/// Another reason is said after this time: a connection may fail in a new way at each attempt.
pub(super) const SAY_OTHER_AFTER: Duration = Duration::from_secs(60);

/// The same reason is said again after this time: it may need a person, and logs are rotated.
pub(super) const SAY_AGAIN_AFTER: Duration = Duration::from_hours(1);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Outage(Option<Failing>);

#[derive(Debug)]
struct Failing {
    /// The pause after the next call that fails.
    pause: Duration,
    said: String,
    said_at: Mono,
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

    /// A call has failed for this reason. Returns the pause before it is made again, and whether the reason is to be said.
    pub(super) fn fail(&mut self, now: Mono, reason: &str) -> (Duration, bool) {
        let pause = self.pause();
        let last = self.0.take();
        let is_news = last.as_ref().is_none_or(|last| {
            let after = if last.said == reason { SAY_AGAIN_AFTER } else { SAY_OTHER_AFTER };
            last.said_at + after <= now
        });
        let (said, said_at) = match last.filter(|_| !is_news) {
            Some(last) => (last.said, last.said_at),
            None => (reason.to_owned(), now),
        };
        self.0 = Some(Failing { pause: (pause * 2).min(RETRY_MAX), said, said_at });
        (pause, is_news)
    }

    /// A call was answered. Returns whether one had failed before.
    pub(super) fn end(&mut self) -> bool {
        self.0.take().is_some()
    }
}
