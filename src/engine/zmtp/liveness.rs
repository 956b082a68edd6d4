//! Whether the peer is still there: when it must be asked, and when it is given up.

use std::time::Duration;

use super::Limits;
use crate::types::Mono;

/// Intervals that a peer which was asked has for its answer.
const ANSWER_INTERVALS: u32 = 2;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The end of the handshake.
    Handshake,
    /// The peer takes what waits for it.
    Stall,
    /// The peer says something.
    Silence,
    /// It is time to ask it.
    Ping,
}

#[derive(Debug)]
pub(super) struct Liveness {
    heard: Mono,
    /// Since it was heard.
    asked: Option<Mono>,
    /// From when on bytes have waited without one of them being taken.
    stalled_since: Option<Mono>,
    /// How much silence the peer wants to be taken for its end.
    ttl: Option<Duration>,
}

impl Liveness {
    pub(super) const fn new(now: Mono) -> Self {
        Self { heard: now, asked: None, stalled_since: None, ttl: None }
    }

    pub(super) const fn heard(&mut self, now: Mono) {
        self.heard = now;
        self.asked = None;
    }

    pub(super) const fn asked(&mut self, now: Mono) {
        self.asked = Some(now);
    }

    pub(super) fn set_ttl(&mut self, ttl: Duration) {
        self.ttl = (!ttl.is_zero()).then_some(ttl);
    }

    /// Bytes wait from now on, if none did before.
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

    /// The nearest deadline of an open connection; only a peer of 3.1 can be asked.
    pub(super) fn next(&self, limits: &Limits, can_ask: bool) -> Option<(Mono, Timer)> {
        let ask = limits.ping_interval.filter(|_| can_ask).map(|interval| {
            match self.asked {
                // From the question on: it may come late, when this whole process was stopped for a while.
                Some(asked) => (asked + interval * ANSWER_INTERVALS, Timer::Silence),
                None => (self.heard + interval, Timer::Ping),
            }
        });
        let ttl = self.ttl.map(|ttl| (self.heard + ttl, Timer::Silence));
        self.stall(limits).into_iter().chain(ask).chain(ttl).min()
    }
}
