//! One address: what waits for it, how far its socket is, and what is due when.

use std::sync::Arc;

use super::queue::FrameQueue;
use super::table::Limits;
use super::wire::{Flow, Wire};
use crate::types::Mono;
use crate::types::PushAddress;

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
    Open(Wire),
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
    NotReading,
    /// The host name: what the resolver says.
    Unresolved(&'static str),
    /// Others have all the sockets.
    Crowded,
}

impl Peer {
    pub(super) fn new(address: Arc<PushAddress>, now: Mono) -> Self {
        let queue = FrameQueue::default();
        Self {
            address,
            queue,
            link: Link::Line { since: now },
            waiting_since: now,
            used: now,
            armed: None,
            send_by: None,
            is_marked: false,
            has_news: false,
            refusals: 0,
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
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Unreachable => "it cannot be reached",
            Self::NotReading => "it takes nothing",
            Self::Unresolved(text) => text,
            Self::Crowded => "others have all the sockets",
        }
    }
}
