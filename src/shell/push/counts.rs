//! What the push thread counts, for statistics and tests.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What has become of the pushed frames since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushCounts {
    /// Handed to the transport for a completed connection.
    pub sent: u64,
    /// Dropped because the address could not be reached, or took nothing, for too long.
    pub dropped_unreachable: u64,
    /// Dropped because too much waited for one address, or for all of them.
    pub dropped_full: u64,
    /// Dropped because more addresses wanted a socket than may have one.
    pub dropped_evicted: u64,
    /// Frames from receivers that were handed on.
    pub received: u64,
    /// Frames from receivers that were thrown away: too long, or nobody took them.
    pub discarded: u64,
    /// Sockets that are open at this moment.
    pub open_sockets: usize,
}

/// The shared form of [`PushCounts`]. Each number stands alone, so that no order between them is needed.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) sent: AtomicU64,
    pub(super) dropped_unreachable: AtomicU64,
    pub(super) dropped_full: AtomicU64,
    pub(super) dropped_evicted: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) discarded: AtomicU64,
    pub(super) open_sockets: AtomicUsize,
    /// Bytes that the push thread has not taken over yet.
    pub(super) handed_over_bytes: AtomicUsize,
}

impl Counters {
    pub(super) fn read(&self) -> PushCounts {
        PushCounts {
            sent: self.sent.load(Ordering::Relaxed),
            dropped_unreachable: self.dropped_unreachable.load(Ordering::Relaxed),
            dropped_full: self.dropped_full.load(Ordering::Relaxed),
            dropped_evicted: self.dropped_evicted.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
            discarded: self.discarded.load(Ordering::Relaxed),
            open_sockets: self.open_sockets.load(Ordering::Relaxed),
        }
    }
}

/// Adds frames to one of the numbers.
pub(super) fn add(counter: &AtomicU64, frames: usize) {
    counter.fetch_add(frames as u64, Ordering::Relaxed);
}
