//! What the loops of controller and agent need of the network, whoever provides it.
//!
//! | `TRANSPORT` | who |
//! |---|---|
//! | `zmq` | [`super::zmq`]: libzmq, with threads of its own |
//! | `own` | [`super::endpoint`]: the loop itself reads and writes the sockets |
//!
//! A loop has one of these and waits in it. What is sent may be kept back until [`Ports::flush`] or the next wait, so that
//! many messages share a write. Nothing here waits for a peer.

use std::os::fd::BorrowedFd;

use crate::types::Mono;

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

    /// Answers: the frames of a request up to its delimiter, then the body.
    ///
    /// # Errors
    /// When the peer is gone or does not read.
    fn send(&mut self, frames: Vec<Vec<u8>>) -> Result<(), Unsendable>;

    /// Sends to whoever asks for it and reads; it may be lost.
    fn publish(&mut self, frame: Vec<u8>);

    /// Whether anybody asks for the messages that are made on demand.
    fn is_watched(&self) -> bool;

    /// Hands over to the kernel what was sent.
    fn flush(&mut self);

    /// Delivers what was sent, for a second at the most.
    fn close(self: Box<Self>);
}

/// An agent's connection to its controller.
pub trait Link {
    /// As [`Ports::wait`].
    fn wait(&mut self, now: Mono, deadline: Option<Mono>, fds: &[BorrowedFd<'_>]) -> Vec<bool>;

    /// Sends one request in the envelope that a REQ socket would make. What is lost is said again by the engine.
    fn send(&mut self, body: Vec<u8>);

    /// The body of the next answer, if there is one.
    fn receive_answer(&mut self) -> Option<Vec<u8>>;

    /// The next broadcast, if there is one.
    fn receive_broadcast(&mut self) -> Option<Vec<u8>>;
}
