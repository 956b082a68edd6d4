//! The limits of ports made by a test that is not about limits.

use std::time::Duration;

use base::Loopback;
use zmtp::endpoint::ConnectionLimits;
use zmtp::engine::{Limits, Security};
use zmtp::sockets::PortSettings;

/// Generous limits: a test narrows the one that it is about. A peer slower than `patience` is disconnected.
pub(crate) fn settings(patience: Duration) -> PortSettings {
    PortSettings {
        limits: Limits {
            message_bytes_max: 262_144,
            long: None,
            parts_max: 8,
            queue_messages_max: 1000,
            queue_bytes_max: 4_000_000,
            handshake_timeout: patience,
            stall_timeout: patience,
            ping_interval: None,
        },
        security: Security::Null,
        places: ConnectionLimits { connections_max: 1000, per_address_max: 1000, held_bytes_max: 1 << 30 },
        local: None,
        local_may_fail: false,
        subscriptions_max: 100,
        loopback: Loopback::SameUser,
    }
}
