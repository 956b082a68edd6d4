//! The limits of pushes. `defaults.toml` of the configuration explains each default.

use std::time::Duration;

use super::backlog::QueueLimits;
use base::AddressPolicy;

/// Largest configurable number of sockets. DESCRIPTORS_RESERVED includes two descriptors for each.
const SOCKETS_MAX: usize = 900;

/// Maximum known receivers per socket: one that has it, and the others in the line.
const RECEIVERS_PER_SOCKET: usize = 4;

/// Number of full queues that fit into the limit of all queues together.
const FULL_QUEUES_MAX: usize = 16;

/// Limits of pushes.
#[derive(Clone, Debug)]
pub struct PushConfig {
    /// Maximum number of open sockets, from 1 to 900.
    pub sockets_max: usize,
    /// Maximum number of frames queued for one receiver.
    pub queue_max: usize,
    /// Maximum bytes queued for one receiver, including 64 for each frame. All receivers together get sixteen times this.
    pub queue_bytes_max: usize,
    /// How long frames wait for an unreachable receiver.
    pub connect_timeout: Duration,
    /// How long an unused socket stays open, and how long frames wait for a connected receiver that does not read.
    pub idle_timeout: Duration,
    /// How long the delivery continues after [`Delivery::handle_stop`](super::Delivery::handle_stop).
    pub linger: Duration,
    /// Maximum number of frames from receivers that are kept until they are polled.
    pub acknowledgements_max: usize,
    /// The addresses that host names may resolve to.
    pub policy: AddressPolicy,
}

impl PushConfig {
    /// Maximum number of open sockets, within the limit of descriptors.
    pub(super) fn open_max(&self) -> usize {
        self.sockets_max.clamp(1, SOCKETS_MAX)
    }

    /// Maximum number of connecting sockets, because a flood of dead addresses must not close every live connection.
    pub(super) fn connecting_max(&self) -> usize {
        (self.open_max() * 3 / 4).max(1)
    }

    /// Maximum number of receivers, with and without a socket.
    pub(super) fn receivers_max(&self) -> usize {
        self.open_max() * RECEIVERS_PER_SOCKET
    }

    /// How long a receiver may try to connect before it must make room for others.
    pub(super) fn grace(&self) -> Duration {
        self.connect_timeout / 10
    }

    pub(super) const fn queue(&self) -> QueueLimits {
        QueueLimits { frames_max: self.queue_max, bytes_max: self.queue_bytes_max }
    }

    /// Maximum bytes queued for all receivers together.
    pub(super) const fn bytes_max(&self) -> usize {
        self.queue_bytes_max.saturating_mul(FULL_QUEUES_MAX)
    }
}
