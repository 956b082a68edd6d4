//! Counters of pushes, for statistics and tests.

/// The fate of the pushed frames since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushCounts {
    /// Frames handed to the transport on a completed connection.
    pub sent: u64,
    /// Frames dropped because the address was unreachable, or did not read, for too long.
    pub dropped_unreachable: u64,
    /// Frames dropped because too much was queued for one address, or for all of them.
    pub dropped_full: u64,
    /// Frames dropped because more addresses wanted a socket than may have one.
    pub dropped_evicted: u64,
    /// Frames from receivers that were kept for the caller.
    pub received: u64,
    /// Frames from receivers that were discarded: too long, or too many.
    pub discarded: u64,
    /// Number of currently open sockets.
    pub open_sockets: usize,
}

impl PushCounts {
    /// Number of all dropped frames.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped_unreachable + self.dropped_full + self.dropped_evicted
    }
}
