//! The common parts of the connections of controller, agents and clients: errors, limits, and the data of suspended
//! connections.

mod denial;
mod suspension;

pub use denial::Denial;
pub(crate) use suspension::{SuspendedListener, SuspendedPeer};
pub use suspension::{SuspendedPorts, Suspension};

use std::io;
use std::time::Duration;

use super::curve_keys::KeyError;

/// Maximum bytes of an answer. A page of details is larger than any request.
pub const ANSWER_BYTES_MAX: usize = 1 << 30;

/// How long [`Ports::close`](crate::sockets::Ports::close) continues to deliver.
pub(crate) const LINGER: Duration = Duration::from_secs(1);

/// The maximum number of connections that the kernel queues for a listener while the program is busy.
pub(crate) const BACKLOG: i32 = 1024;

/// Seconds of silence after which the kernel probes a peer, seconds between two probes, and the number of probes. A
/// dead machine is detected after two minutes, while a live client may be silent for days.
pub(crate) const KEEPALIVE_IDLE_SECONDS: u32 = 60;
pub(crate) const KEEPALIVE_INTERVAL_SECONDS: u32 = 20;
pub(crate) const KEEPALIVE_COUNT: u32 = 3;

/// An operation on a socket that has failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {endpoint}: {source}")]
pub struct SocketError {
    what: &'static str,
    endpoint: String,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl SocketError {
    /// An error with the operation, the endpoint and the source.
    pub fn new(
        what: &'static str,
        endpoint: &str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { what, endpoint: endpoint.to_owned(), source: source.into() }
    }

    /// Whether the error is about a key file.
    #[must_use]
    pub fn is_about_keys(&self) -> bool {
        self.source.is::<KeyError>()
    }

    /// Whether the address of a socket is used by another process.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        let kind = self.source.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(kind, Some(io::ErrorKind::AddrInUse | io::ErrorKind::AlreadyExists))
    }
}

/// Why a message was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsendable {
    /// The peer is no longer connected.
    NoPeer,
    /// The peer does not read; its queue is full.
    Full,
}
