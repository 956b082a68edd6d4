//! The limits of the pushes; `defaults.toml` of the configuration says what each default is for.

use std::time::Duration;

use super::backlog::QueueLimits;
use crate::types::AddressPolicy;

/// Most sockets that can be configured. DESCRIPTORS_RESERVED has two descriptors for each of them.
const SOCKETS_MAX: usize = 900;

/// Receivers that are known at the same time, for each socket: one that has it, the others in the line.
const RECEIVERS_PER_SOCKET: usize = 4;

/// Full queues that fit into the limit of all queues together.
const FULL_QUEUES_MAX: usize = 16;

/// How pushes are limited.
#[derive(Clone, Debug)]
pub struct PushConfig {
    /// Open sockets; 1 to 900.
    pub sockets_max: usize,
    /// Frames queued for one receiver.
    pub queue_max: usize,
    /// Bytes queued for one receiver, with 64 more for each frame. All receivers together get sixteen times this.
    pub queue_bytes_max: usize,
    /// How long frames wait for a receiver that cannot be reached.
    pub connect_timeout: Duration,
    /// How long an unused socket stays open, and how long frames wait for a receiver that is connected and reads nothing.
    pub idle_timeout: Duration,
    /// How long the delivery goes on after [`Delivery::handle_stop`](super::Delivery::handle_stop).
    pub linger: Duration,
    /// Frames from receivers that are kept until they are polled.
    pub acknowledgements_max: usize,
    /// What host names may resolve to.
    pub policy: AddressPolicy,
}

impl PushConfig {
    /// Open sockets, within what the descriptors allow.
    pub(super) fn open_max(&self) -> usize {
        self.sockets_max.clamp(1, SOCKETS_MAX)
    }

    /// Open sockets that are not connected yet: a flood of dead addresses must not close every living connection.
    pub(super) fn connecting_max(&self) -> usize {
        (self.open_max() * 3 / 4).max(1)
    }

    /// Receivers with and without a socket.
    pub(super) fn receivers_max(&self) -> usize {
        self.open_max() * RECEIVERS_PER_SOCKET
    }

    /// How long a receiver may try to connect before it has to make room for others.
    pub(super) fn grace(&self) -> Duration {
        self.connect_timeout / 10
    }

    pub(super) const fn queue(&self) -> QueueLimits {
        QueueLimits { frames_max: self.queue_max, bytes_max: self.queue_bytes_max }
    }

    /// Bytes queued for all receivers together.
    pub(super) const fn bytes_max(&self) -> usize {
        self.queue_bytes_max.saturating_mul(FULL_QUEUES_MAX)
    }
}
