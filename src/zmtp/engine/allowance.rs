//! The limits of the next frame of a connection.

use super::command::COMMAND_BYTES_MAX;
use super::connection::{Connection, State};
use super::frame::Allowance;
use super::kind::Kind;
use super::session::OVERHEAD_BYTES;

impl Connection {
    /// The limits of the next frame. A closed CURVE box does not show whether it holds a command or may be long.
    pub(super) fn allowance(&self) -> Allowance {
        let limits = &self.settings.limits;
        let message_bytes = limits.message_bytes_max.saturating_sub(self.parts_bytes);
        let (skips, before) = (self.skips(), self.parts_bytes);
        match self.state {
            State::Open(_) if self.session.is_some() => {
                let bytes = limits.bytes_max().max(COMMAND_BYTES_MAX) + OVERHEAD_BYTES;
                let overhead = OVERHEAD_BYTES;
                Allowance { command_bytes: bytes, message_bytes: bytes, long: None, skips, overhead, before }
            }
            State::Open(_) => {
                let (command_bytes, long) = (COMMAND_BYTES_MAX, limits.long);
                Allowance { command_bytes, message_bytes, long, skips, overhead: 0, before }
            }
            // The identity of the peer is not known yet.
            State::Greeting { .. } | State::Handshake { .. } | State::Over => {
                let command_bytes = COMMAND_BYTES_MAX;
                Allowance { command_bytes, message_bytes: 0, long: None, skips: false, overhead: 0, before: 0 }
            }
        }
    }

    /// Whether a message that is too long is skipped, because its sender waits for an answer.
    pub(super) fn skips(&self) -> bool {
        self.settings.kind == Kind::Router
    }
}
