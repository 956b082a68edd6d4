//! The liveness of the peer: decides when to probe it and when to give it up.

use std::time::Duration;

use super::Limits;
use base::Mono;

/// Time to answer a probe, in intervals.
const ANSWER_INTERVALS: u32 = 2;

/// The reason of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The handshake must be complete.
    Handshake,
    /// The peer must have read some of its queue.
    Stall,
    /// The peer must have sent something.
    Silence,
    /// The next probe is due.
    Ping,
}

#[derive(Debug)]
pub(super) struct Liveness {
    heard: Mono,
    /// Time of an unanswered probe.
    asked: Option<Mono>,
    /// When the peer was last known to read from a full stream.
    reads: Option<Mono>,
    /// Since when queued bytes have waited without progress.
    stalled_since: Option<Mono>,
    /// The silence after which the peer wants to be considered gone.
    ttl: Option<Duration>,
}

impl Liveness {
    pub(super) const fn new(now: Mono) -> Self {
        Self { heard: now, asked: None, reads: None, stalled_since: None, ttl: None }
    }

    pub(super) const fn heard(&mut self, now: Mono) {
        self.heard = now;
        self.asked = None;
    }

    pub(super) const fn asked(&mut self, now: Mono) {
        self.asked = Some(now);
    }

    /// The peer has read from a full stream, so it lives. Its own messages are not read meanwhile: they stay unheard.
    pub(super) const fn reads(&mut self, now: Mono) {
        self.reads = Some(now);
    }

    pub(super) fn set_ttl(&mut self, ttl: Duration) {
        self.ttl = (!ttl.is_zero()).then_some(ttl);
    }

    pub(super) const fn ttl(&self) -> Option<Duration> {
        self.ttl
    }

    /// Bytes are queued.
    pub(super) fn waits(&mut self, now: Mono) {
        self.stalled_since.get_or_insert(now);
    }

    /// Some bytes were taken.
    pub(super) fn moved(&mut self, now: Mono, is_empty: bool) {
        self.stalled_since = (!is_empty).then_some(now);
    }

    pub(super) fn stall(&self, limits: &Limits) -> Option<(Mono, Timer)> {
        self.stalled_since.map(|since| (since + limits.stall_timeout, Timer::Stall))
    }

    /// The nearest deadline of an open connection. Only a peer of 3.1 can be probed.
    pub(super) fn next(&self, limits: &Limits, can_ask: bool) -> Option<(Mono, Timer)> {
        let ask = limits.ping_interval.filter(|_| can_ask).map(|interval| {
            match self.asked {
                // Counted from the probe, which may come late if this whole process was stopped for a while.
                Some(asked) => (self.seen(asked) + interval * ANSWER_INTERVALS, Timer::Silence),
                None => (self.heard + interval, Timer::Ping),
            }
        });
        let ttl = self.ttl.map(|ttl| (self.seen(self.heard) + ttl, Timer::Silence));
        self.stall(limits).into_iter().chain(ask).chain(ttl).min()
    }

    /// The last sign of life, at least as late as this.
    fn seen(&self, at: Mono) -> Mono {
        self.reads.map_or(at, |reads| reads.max(at))
    }
}
