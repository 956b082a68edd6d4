//! The network interface of the loops of controller and agent: two ports, a link, and their errors. [`super::transport`]
//! makes them, with the configured transport.

mod denial;
mod suspension;

pub use denial::Denial;
pub(super) use suspension::{SuspendedListener, SuspendedPeer};
pub use suspension::{SuspendedPorts, Suspension};

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::curve_keys::KeyError;
use crate::config::Config;
use crate::types::{Caller, Mono};

/// The maximum size of an answer: a page of details is larger than any request.
pub(super) const ANSWER_BYTES_MAX: usize = 1 << 30;

/// How long [`Ports::close`] continues to deliver, with either transport.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// The maximum number of connections that the kernel queues for a listener while the program is busy.
pub(super) const BACKLOG: i32 = 1024;

/// Seconds of silence after which the kernel probes a peer, seconds between two probes, and the number of probes: a dead
/// machine is noticed after two minutes. A client may be silent for days.
pub(super) const KEEPALIVE_IDLE_SECONDS: u32 = 60;
pub(super) const KEEPALIVE_INTERVAL_SECONDS: u32 = 20;
pub(super) const KEEPALIVE_COUNT: u32 = 3;

/// A transport that may be missing from the program, as functions that make the endpoints for requests and for broadcasts.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// Binds both endpoints; the last argument is the `watchable` of [`super::transport::bind`].
    pub(super) bind: fn(&Config, &str, Option<&str>, String) -> Bound,
    /// Connects to both endpoints, and subscribes to broadcasts with one of these prefixes.
    pub(super) connect: fn(&Config, &str, Option<&str>, &[String]) -> Connected,
}

pub(super) type Bound = Result<Box<dyn Ports>, SocketError>;
pub(super) type Connected = Result<Box<dyn Link>, SocketError>;

/// An operation that the network, or the library in front of it, refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {endpoint}: {source}")]
pub struct SocketError {
    what: &'static str,
    endpoint: String,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl SocketError {
    /// An error with the operation, the endpoint and the source.
    pub(super) fn new(
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

/// The controller's two ports: requests with their answers, in any order, and broadcasts.
pub trait Ports {
    /// The endpoint for requests, with the port that the system chose if 0 was configured.
    fn requests(&self) -> &str;

    /// The endpoint for broadcasts.
    fn broadcasts(&self) -> &str;

    /// Waits until a message has arrived, one of `fds` is readable, or the deadline has passed; returns for each of `fds`
    /// whether it is readable.
    fn wait(&mut self, now: Mono, deadline: Option<Mono>, fds: &[BorrowedFd<'_>]) -> Vec<bool>;

    /// The next request, if there is one: first a frame that identifies the peer, then the frames that it sent.
    fn receive(&mut self) -> Option<Vec<Vec<u8>>>;

    /// The next peer that has disconnected: it sends nothing more and accepts no answer. All its requests have been
    /// received. A transport that cannot detect this returns `None`.
    fn poll_closed(&mut self) -> Option<Vec<u8>>;

    /// Marks a connection as that of an agent: it is not closed in favour of a new connection, however long it is silent.
    fn exempt(&mut self, peer: &[u8]);

    /// The sender at the other end of a connection; `None` if that is unknown.
    fn caller(&self, peer: &[u8]) -> Option<Caller>;

    /// Sends an answer: the frames of a request up to its delimiter, then the body. The answer may be held back for
    /// `delay_max`, to share a write with another message to the same peer.
    ///
    /// # Errors
    /// When the peer has disconnected or does not read.
    fn send(&mut self, frames: Vec<Vec<u8>>, delay_max: Duration) -> Result<(), Unsendable>;

    /// Sends to every subscriber that reads; the message may be lost.
    fn publish(&mut self, frame: Vec<u8>);

    /// Whether there is a subscriber to the messages that are made on demand.
    fn is_watched(&self) -> bool;

    /// The number of open connections, as far as the transport knows.
    fn connections(&self) -> usize;

    /// Hands all sent messages over to the kernel.
    fn flush(&mut self);

    /// Ends without closing the connections of clients, so that another program can continue them; `None` for a transport that cannot.
    fn suspend(self: Box<Self>) -> Option<Suspension>;

    /// Delivers the messages that were sent, for at most a second.
    fn close(self: Box<Self>);
}

/// An agent's connection to its controller.
pub trait Link {
    /// As [`Ports::wait`].
    fn wait(&mut self, now: Mono, deadline: Option<Mono>, fds: &[BorrowedFd<'_>]) -> Vec<bool>;

    /// Whether there is a connection for requests. A transport that cannot tell returns true.
    fn is_connected(&self) -> bool;

    /// Whether a connection for requests was made since the last call. A transport that cannot tell returns false: messages
    /// lost with the previous connection are repeated with the next heartbeats.
    fn take_connected(&mut self) -> bool;

    /// Sends one request in the envelope that a REQ socket would make. The engine repeats a request that was lost.
    fn send(&mut self, body: Vec<u8>);

    /// The body of the next answer, if there is one.
    fn receive_answer(&mut self) -> Option<Vec<u8>>;

    /// The next broadcast, if there is one.
    fn receive_broadcast(&mut self) -> Option<Vec<u8>>;

    /// Why the controller has rejected the connection, once for each attempt to connect.
    fn take_denial(&mut self) -> Option<Denial>;

    /// Connects again, because the old connection has been silent for too long.
    ///
    /// # Errors
    /// When descriptors have run out; the old connection stays then.
    fn reconnect(&mut self) -> Result<(), SocketError>;
}
