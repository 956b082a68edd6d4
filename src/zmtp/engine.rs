//! Either side of one ZMTP connection: bytes in, events and bytes out, time as a value.
//!
//! It speaks ZMTP 3.1 (RFC 37) with peers of 3.1 and 3.0 (RFC 23), with the mechanisms NULL and CURVE (RFC 25 and 26),
//! for the patterns request-reply (RFC 28) and publish-subscribe (RFC 29). Older peers are refused. The envelope of a
//! request is [`crate::envelope`]'s concern.
//!
//! | state | input | next |
//! |---|---|---|
//! | `Greeting` | 64 bytes, checked as they arrive; the accepting side sends only the first ten of its own before | `Handshake`; the first command of the mechanism is sent |
//! | `Handshake` | commands of the mechanism | `Open` with [`Event::Opened`], if the socket types are compatible |
//! | `Open` | messages, SUBSCRIBE, CANCEL, PING, PONG | |
//! | `Over` | further input is ignored | |
//!
//! A [`DisconnectReason`] ends the connection: the owner writes the rest of [`Connection::output`], which may be an
//! ERROR, and closes. The owner calls [`Connection::handle_input`] until the input is used up,
//! [`Connection::handle_written`] after each write of [`Connection::output`], and [`Connection::handle_timeout`] at
//! [`Connection::poll_timeout`].
//!
//! [`Limits`] bound the memory that a peer can make us hold: a length is checked before a byte of the body is stored,
//! and memory grows with the received bytes, not with announced ones.
//!
//! # Why not a library
//!
//! `omq-proto` 0.37 is the only crate with this design. It bounds bytes, and parts by the size of their handles. But it
//! takes 256 KiB from a peer before the handshake is done, and it reads the random source itself, so that no run can be
//! replayed. It brings 17,000 lines for transports and compressors that are not used here. Its CURVE relies on a cipher
//! crate with one release by the same single author. It had 52 releases in its first six months, half of them breaking.
//! `zeromq` and `rzmq` are async. The ciphers used here are RustCrypto's.

mod allowance;
mod command;
mod connection;
mod curve;
mod disconnect_reason;
mod frame;
mod greeting;
mod handshake;
mod keys;
mod kind;
mod liveness;
mod outbox;
mod session;
mod subscriptions;
mod suspended;
mod tests;

pub use connection::{Connection, Event, Peer, Settings};
pub(crate) use curve::UNAUTHORISED;
pub use disconnect_reason::{DisconnectReason, Full};
pub use keys::{BadKey, ClientKeys, KeyPair, PublicKey, Security, ServerKeys};
pub use kind::Kind;
pub use liveness::Timer;
pub use subscriptions::{PREFIX_BYTES_MAX, Subscriptions, TooMany};
pub use suspended::Suspended;

use std::time::Duration;

use crate::envelope::{LongKind, TooLong};

/// The messages that may be longer than others. The first bytes of a part decide, before the rest is stored.
#[derive(Clone, Copy, Debug)]
pub struct LongMessages {
    /// Maximum bytes of a submit of tasks.
    pub submit_bytes_max: usize,
    /// Maximum bytes of a submit of a graph.
    pub graph_bytes_max: usize,
    /// Maximum bytes of a report of an agent.
    pub report_bytes_max: usize,
    /// The kind of a part that begins like this.
    pub kind: fn(&[u8]) -> LongKind,
}

impl LongMessages {
    /// Bytes of the longest message.
    fn bytes_max(&self) -> usize {
        self.submit_bytes_max.max(self.graph_bytes_max).max(self.report_bytes_max)
    }

    /// Maximum bytes of a message with a part that begins like this: 0 if it must not be long, `None` while there are
    /// too few bytes to tell.
    fn bytes_of(&self, start: &[u8]) -> Option<usize> {
        match (self.kind)(start) {
            LongKind::Submit => Some(self.submit_bytes_max),
            LongKind::Graph => Some(self.graph_bytes_max),
            LongKind::Report => Some(self.report_bytes_max),
            LongKind::None => Some(0),
            LongKind::Unknown => None,
        }
    }
}

/// Limits for a peer.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum bytes of a message, all parts together.
    pub message_bytes_max: usize,
    /// The messages that may be longer.
    pub long: Option<LongMessages>,
    /// Maximum parts of a message.
    pub parts_max: usize,
    /// Maximum number of queued messages.
    pub queue_messages_max: usize,
    /// Maximum bytes in the queue. One message may always be queued, whatever its size.
    pub queue_bytes_max: usize,
    /// Time limit from the first byte to [`Event::Opened`].
    pub handshake_timeout: Duration,
    /// How long the peer may take none of its queue.
    pub stall_timeout: Duration,
    /// Silence after which a peer of 3.1 is probed; `None` never probes. The peer has two more intervals to answer.
    pub ping_interval: Option<Duration>,
}

impl Limits {
    /// Bytes of the longest message.
    fn bytes_max(&self) -> usize {
        self.long.map_or(0, |long| long.bytes_max()).max(self.message_bytes_max)
    }

    /// Checks a frame taken out of its box, after parts with `before` bytes of the same message. If `skips` is true, a
    /// part that is too long is dropped.
    ///
    /// # Errors
    /// When the connection must be closed.
    fn check(&self, frame: &mut frame::Frame, before: usize, skips: bool) -> Result<(), DisconnectReason> {
        let long = || self.long.and_then(|long| long.bytes_of(&frame.body)).unwrap_or_default();
        let max = match frame.is_command {
            true => command::COMMAND_BYTES_MAX,
            false => self.message_bytes_max.max(long()).saturating_sub(before),
        };
        let bytes = frame.body.len() as u64;
        if bytes <= max as u64 {
            return Ok(());
        }
        if frame.is_command || !skips {
            return Err(DisconnectReason::TooLong { bytes, max });
        }
        let kind = self.long.map_or(LongKind::None, |long| (long.kind)(&frame.body));
        frame.too_long = Some(TooLong { bytes, max, kind });
        frame.body = Vec::new();
        Ok(())
    }
}
