//! What is counted of pushes, for statistics and tests.

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
    /// Frames from receivers that were kept for the caller.
    pub received: u64,
    /// Frames from receivers that were thrown away: too long, or too many.
    pub discarded: u64,
    /// Sockets that are open at this moment.
    pub open_sockets: usize,
}

impl PushCounts {
    /// All that were dropped.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped_unreachable + self.dropped_full + self.dropped_evicted
    }
}
