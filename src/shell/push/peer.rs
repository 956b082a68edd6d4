//! One address: what waits for it, how far its socket is, and what is due when.

use std::borrow::Cow;
use std::sync::Arc;

use prometheus_client::metrics::histogram::Histogram;

use super::queue::FrameQueue;
use super::table::Limits;
use super::wire::{Flow, Wire};
use crate::protocol::words;
use crate::types::Mono;
use crate::types::{PublicKey, PushAddress};

/// Names a peer for the poller and the timers. It is never used again, so that a late event finds nobody.
pub(super) type PeerId = u64;

/// An address with frames, or with a socket, or with both.
pub(super) struct Peer {
    pub(super) address: Arc<PushAddress>,
    pub(super) queue: FrameQueue,
    pub(super) link: Link,
    /// When frames began to wait for a connection. A flood that replaces the oldest frame does not move it.
    pub(super) waiting_since: Mono,
    /// When a frame moved last, in either direction.
    pub(super) used: Mono,
    /// The deadline that stands in the table of timers.
    pub(super) armed: Option<Mono>,
    /// When it is served although nothing else happens: what waits for it has waited for company.
    pub(super) send_by: Option<Mono>,
    /// Stands in the list of those to be served.
    pub(super) is_marked: bool,
    /// The poller has named it since it was served: there is more than room to write.
    pub(super) has_news: bool,
    /// Connections that were refused one after the other.
    pub(super) refusals: u32,
    /// The last of them had come as far as the handshake.
    pub(super) is_misunderstood: bool,
}

/// The way to an address.
pub(super) enum Link {
    /// Waits in the line for a socket.
    Line {
        /// When it joined.
        since: Mono,
    },
    /// Waits for the answer to its host name.
    Resolving,
    /// Its connection was lost, or no socket could be had; it goes to the line again.
    Resting {
        /// When.
        until: Mono,
    },
    /// Has a socket.
    Open(Box<Wire>),
}

/// What is to be done at the deadline of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Go to the line again.
    Rejoin,
    /// Read on, or send what has waited for company.
    Serve,
    /// Close the socket: nothing has moved for long.
    CloseIdle,
    /// Drop what waits and close the socket.
    GiveUp(Reason),
}

/// Why what waits for an address is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Unreachable,
    /// Somebody is there, and the handshake never comes to its end.
    Handshake,
    NotReading,
    /// The host name: what the resolver says.
    Unresolved(&'static str),
    /// Others have all the sockets.
    Crowded,
}

impl Peer {
    pub(super) fn new(address: Arc<PushAddress>, now: Mono, waited: &Histogram) -> Self {
        Self {
            address,
            queue: FrameQueue::new(waited),
            link: Link::Line { since: now },
            waiting_since: now,
            used: now,
            armed: None,
            send_by: None,
            is_marked: false,
            has_news: false,
            refusals: 0,
            is_misunderstood: false,
        }
    }

    /// What is known of the connection, if there is a socket.
    pub(super) fn flow(&self) -> Option<Flow> {
        match &self.link {
            Link::Open(wire) => Some(wire.flow()),
            Link::Line { .. } | Link::Resolving | Link::Resting { .. } => None,
        }
    }

    /// Says whether a frame can go out at once.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.flow(), Some(Flow::Up { .. }))
    }

    /// Why it is not connected, as far as that is known.
    pub(super) const fn unreachable(&self) -> Reason {
        match &self.link {
            Link::Open(wire) if wire.is_shaking() => Reason::Handshake,
            _ if self.is_misunderstood => Reason::Handshake,
            _ => Reason::Unreachable,
        }
    }

    /// The nearest deadline and what it is for.
    pub(super) fn due(&self, limits: &Limits) -> Option<(Mono, Due)> {
        let given_up_at = self.waiting_since + limits.connect_timeout;
        let has_frames = !self.queue.is_empty();
        match &self.link {
            Link::Line { .. } => Some((given_up_at, Due::GiveUp(Reason::Crowded))),
            Link::Resolving => Some((given_up_at, Due::GiveUp(Reason::Unresolved("its host name is not answered")))),
            Link::Resting { until } if *until < given_up_at => Some((*until, Due::Rejoin)),
            Link::Resting { .. } => Some((given_up_at, Due::GiveUp(Reason::Unreachable))),
            Link::Open(wire) => {
                let serve = wire.paused_until().into_iter().chain(self.send_by).min().map(|at| (at, Due::Serve));
                let end = match wire.flow() {
                    _ if !has_frames => Some((self.used + limits.idle_timeout, Due::CloseIdle)),
                    Flow::Connecting { .. } => Some((given_up_at, Due::GiveUp(Reason::Unreachable))),
                    Flow::Full { since } => Some((since + limits.idle_timeout, Due::GiveUp(Reason::NotReading))),
                    Flow::Up { .. } => None,
                };
                serve.into_iter().chain(end).min_by_key(|(at, _)| *at)
            }
        }
    }
}

impl Reason {
    /// How a sentence about the address goes on.
    pub(super) fn text(self, address: &PushAddress, ours: PublicKey) -> Cow<'static, str> {
        let text = match self {
            Self::Unreachable => "it cannot be reached",
            Self::Handshake => return handshake_text(address, ours).into(),
            Self::NotReading => "it takes nothing",
            Self::Unresolved(text) => text,
            Self::Crowded => "others have all the sockets",
        };
        text.into()
    }
}

fn handshake_text(address: &PushAddress, ours: PublicKey) -> String {
    let field = words::ADDRESS_KEY;
    match address.key {
        Some(_) => format!(
            "it does not complete the handshake of CURVE; {field} must be its public key, and it must let in the key of this \
             controller, {ours}"
        ),
        None => format!("it does not complete the handshake; if it wants CURVE, submit with its public key as {field}"),
    }
}
