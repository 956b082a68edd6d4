//! The handshake of the mechanism NULL: either side sends READY with its properties (RFC 37).

use super::command::{self, ERROR, READY};
use super::cut::Cut;
use super::kind::Kind;

/// Our part of the handshake, once the greeting of the peer is there.
pub(super) fn write_ready(ours: Kind, out: &mut Vec<u8>) {
    command::write(out, READY, &[&command::properties(ours)]);
}

/// Reads the READY of the peer.
pub(super) fn read_ready(ours: Kind, body: &[u8]) -> Result<Kind, Cut> {
    match command::split(body)? {
        (READY, properties) => command::peer_kind(ours, properties),
        (ERROR, reason) => Err(Cut::Refused(command::error_reason(reason))),
        _ => Err(Cut::Protocol("the handshake of NULL is a READY")),
    }
}
