//! How the engine names the connections of the ports.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::engine::controller::ConnectionId;

/// The engine's name for the connection of a peer. Our own transport names a peer by eight bytes; the names of libzmq's peers may
/// fall together, which then share what one connection may have.
pub(super) fn connection(peer: &[u8]) -> ConnectionId {
    ConnectionId(peer.try_into().map(u64::from_be_bytes).unwrap_or_else(|_| {
        let mut hasher = DefaultHasher::new();
        peer.hash(&mut hasher);
        hasher.finish()
    }))
}
