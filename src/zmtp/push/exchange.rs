//! The frames of one receiver, both ways, while its socket is served.

use std::sync::Arc;
use std::time::Duration;

use super::backlog::{Backlog, FrameQueue};
use super::inbox::Inbox;
use super::pace::Pace;
use base::{Mono, PushAddress};

/// The frames that a connection takes from the engine and gives to it.
/// [`Delivery::handle_served`](super::Delivery::handle_served) follows.
pub struct Exchange<'a> {
    pub(super) address: &'a Arc<PushAddress>,
    pub(super) queue: &'a mut FrameQueue,
    pub(super) backlog: &'a mut Backlog,
    pub(super) pace: &'a mut Pace,
    pub(super) inbox: &'a mut Inbox,
}

impl Exchange<'_> {
    /// The next frame to send. It stays the same until [`Self::handle_transmitted`].
    #[must_use]
    pub fn poll_transmit(&self) -> Option<&[u8]> {
        self.queue.front()
    }

    /// The connection has taken the frame. Returns the time since its push.
    pub fn handle_transmitted(&mut self, now: Mono) -> Duration {
        self.backlog.pop(self.queue).map_or(Duration::ZERO, |pushed_at| now.since(pushed_at))
    }

    /// Whether more may be read in this window.
    #[must_use]
    pub const fn may_receive(&self) -> bool {
        self.pace.left() > 0
    }

    /// Bytes were read. They count as one frame, so that control messages of the transport are paced as well.
    pub const fn handle_read(&mut self) {
        self.pace.spend(1);
    }

    /// The receiver has sent a frame, or a part of a longer message.
    pub fn handle_received(&mut self, part: &[u8]) {
        self.pace.spend(1);
        self.inbox.take(self.address, part);
    }
}
