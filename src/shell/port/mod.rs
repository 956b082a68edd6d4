//! What the loops of controller and agent need of the network: two ports, a link, and what can go wrong with them.
//!
//! [`super::transport`] makes them, of whichever transport is configured.

mod denial;

pub use denial::Denial;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::curve_keys::KeyError;
use crate::config::Config;
use crate::types::Mono;

/// A page of details is larger than any request.
pub(super) const ANSWER_BYTES_MAX: usize = 1 << 30;

/// How long [`Ports::close`] goes on delivering, with either transport.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// Connections that the kernel keeps for a listener of either transport while the program does something else.
pub(super) const BACKLOG: i32 = 1024;

/// Seconds of silence after which the kernel asks a peer, between two questions, and how many it asks: a machine that is
/// gone is noticed after two minutes. A client may be silent for days.
pub(super) const KEEPALIVE_IDLE_SECONDS: u32 = 60;
pub(super) const KEEPALIVE_INTERVAL_SECONDS: u32 = 20;
pub(super) const KEEPALIVE_COUNT: u32 = 3;

/// A transport that may be missing from the program, as functions on the endpoints for requests and for broadcasts.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// Binds both; the last is the `watchable` of [`super::transport::bind`].
    pub(super) bind: fn(&Config, &str, Option<&str>, String) -> Bound,
    /// Connects to both, and asks for broadcasts that begin with one of these prefixes.
    pub(super) connect: fn(&Config, &str, Option<&str>, &[String]) -> Connected,
}

pub(super) type Bound = Result<Box<dyn Ports>, SocketError>;
pub(super) type Connected = Result<Box<dyn Link>, SocketError>;

/// Something that the network, or the library in front of it, refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {endpoint}: {source}")]
pub struct SocketError {
    what: &'static str,
    endpoint: String,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl SocketError {
    /// What could not be done to which endpoint, and why.
    pub(super) fn new(
        what: &'static str,
        endpoint: &str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { what, endpoint: endpoint.to_owned(), source: source.into() }
    }

    /// Whether a file of keys is not as it should be.
    #[must_use]
    pub fn is_about_keys(&self) -> bool {
        self.source.is::<KeyError>()
    }

    /// Whether the place of a socket is taken by something else.
    pub(super) fn is_taken(&self) -> bool {
        let kind = self.source.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(kind, Some(io::ErrorKind::AddrInUse | io::ErrorKind::AlreadyExists))
    }
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsendable {
    /// There is no such peer any more.
    NoPeer,
    /// The peer does not read; its queue is full.
    Full,
}

/// The controller's two ports: requests with their answers, in any order, and broadcasts.
pub trait Ports {
    /// Where requests come in, with the port that was taken for 0.
    fn requests(&self) -> &str;

    /// Where broadcasts go out.
    fn broadcasts(&self) -> &str;

    /// Waits until a message has come, one of `fds` is readable, or the deadline has come; says of each of `fds` whether it
    /// is readable.
    fn wait(&mut self, now: Mono, deadline: Option<Mono>, fds: &[BorrowedFd<'_>]) -> Vec<bool>;

    /// The next request, if there is one: first a frame that names the peer, then what it sent.
    fn receive(&mut self) -> Option<Vec<Vec<u8>>>;

    /// The next peer that has gone: it sends nothing more and takes no answer. Its requests have all been received. A transport
    /// that cannot tell never says so.
    fn poll_closed(&mut self) -> Option<Vec<u8>>;

    /// An agent speaks by this connection of a peer: it gives way to no newcomer, however long it is silent.
    fn keep(&mut self, peer: &[u8]);

    /// Answers: the frames of a request up to its delimiter, then the body. The answer may be held back for `delay_max`, to share
    /// a write with another message to the same peer.
    ///
    /// # Errors
    /// When the peer is gone or does not read.
    fn send(&mut self, frames: Vec<Vec<u8>>, delay_max: Duration) -> Result<(), Unsendable>;

    /// Sends to whoever asks for it and reads; it may be lost.
    fn publish(&mut self, frame: Vec<u8>);

    /// Whether anybody asks for the messages that are made on demand.
    fn is_watched(&self) -> bool;

    /// Open connections, as far as the transport knows.
    fn connections(&self) -> usize;

    /// Hands over to the kernel what was sent.
    fn flush(&mut self);

    /// Delivers what was sent, for a second at the most.
    fn close(self: Box<Self>);
}

/// An agent's connection to its controller.
pub trait Link {
    /// As [`Ports::wait`].
    fn wait(&mut self, now: Mono, deadline: Option<Mono>, fds: &[BorrowedFd<'_>]) -> Vec<bool>;

    /// Whether there is a connection for requests. A transport that cannot tell says that there is one.
    fn is_connected(&self) -> bool;

    /// Whether a connection for requests was made since the last call. A transport that cannot tell never says so: what was lost
    /// with the one before is said again with the next heartbeats.
    fn take_connected(&mut self) -> bool;

    /// Sends one request in the envelope that a REQ socket would make. What is lost is said again by the engine.
    fn send(&mut self, body: Vec<u8>);

    /// The body of the next answer, if there is one.
    fn receive_answer(&mut self) -> Option<Vec<u8>>;

    /// The next broadcast, if there is one.
    fn receive_broadcast(&mut self) -> Option<Vec<u8>>;

    /// Why the controller has turned us away, once for each attempt to connect.
    fn take_denial(&mut self) -> Option<Denial>;

    /// Connects anew: the old connection has been silent for too long.
    ///
    /// # Errors
    /// When descriptors have run out; the old connection stays then.
    fn reconnect(&mut self) -> Result<(), SocketError>;
}
