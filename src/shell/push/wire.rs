//! The connection to one address, of either transport.
//!
//! | a wire is | `zmq` | `own` |
//! |---|---|---|
//! | asked | when the socket has news | when the stream has bytes or room |
//! | served at once | 1,024 frames | 16 KiB in and 256 KiB out |
//! | hiding frames | 100 in libzmq, and the kernel's | 64 KiB that are encoded, and the kernel's |
//! | refused | not told: libzmq tries again by itself | lost, and the table tries again |

mod own;
mod zmq;

use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::epoll::EpollFlags;

use super::inbox::Inbox;
use super::queue::FrameQueue;
use crate::engine::zmtp::{ClientKeys, KeyPair, Security};
use crate::types::Mono;
use crate::types::{PublicKey, PushAddress};

use own::OwnWire;
use zmq::ZmqWire;

/// Bytes of a frame from a peer. The connection is cut beyond it, so an echo of what we push must fit.
const RECEIVE_BYTES_MAX: usize = 262_144;

/// Looks at one socket before the others get their turn: reads, and writes.
const LOOKS_MAX: usize = 4;

/// What the socket is known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Not connected so far.
    Connecting {
        /// When the socket was opened.
        since: Mono,
    },
    /// Connected and writable.
    Up {
        /// Frames sent since it became writable.
        sent: usize,
    },
    /// Connected; the peer does not read as fast as we send.
    Full {
        /// When the last frame fitted in.
        since: Mono,
    },
}

impl Flow {
    pub(super) const fn is_connecting(self) -> bool {
        matches!(self, Self::Connecting { .. })
    }
}

/// What a look at the socket left behind; of two looks the greater counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// Nothing to do until the descriptor is ready, or a frame is pushed.
    Settled,
    /// There is more, but it is another socket's turn.
    More,
    /// The connection is gone.
    Lost,
}

/// What moved while a socket was served.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub(super) outcome: Outcome,
    /// Frames that the transport took.
    pub(super) sent: usize,
    /// Frames and parts that the peer sent.
    pub(super) received: usize,
    /// Bytes in both directions.
    pub(super) bytes: usize,
}

/// Times that come from the configuration.
#[derive(Clone, Copy, Debug)]
pub(super) struct WireTimes {
    /// How long a closed socket goes on delivering.
    pub(super) linger: Duration,
    /// How long a peer may take for the handshake.
    pub(super) handshake: Duration,
}

/// Where wires come from.
pub(super) enum Wires {
    /// Sockets of this context.
    Zmq(::zmq::Context),
    /// Streams; with our keys, for receivers that want CURVE.
    Own(KeyPair),
}

/// The open connection to one address.
pub(super) enum Wire {
    Zmq(ZmqWire),
    Own(Box<OwnWire>),
}

/// Why there is no wire.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoWire {
    #[error(transparent)]
    Zmq(#[from] ::zmq::Error),
    #[error(transparent)]
    Own(#[from] std::io::Error),
    /// Nothing is said in plain text to who has a key.
    #[error("its key asks for CURVE, and TRANSPORT = \"zmq\" has none; say TRANSPORT = \"own\"")]
    NoCurve,
}

impl Wires {
    /// Opens a wire and starts to connect; whoever is there has to have the secret to `key`, if there is one. It fails when
    /// descriptors or sockets have run out.
    pub(super) fn open(
        &self,
        target: (IpAddr, u16),
        key: Option<PublicKey>,
        times: WireTimes,
        now: Mono,
    ) -> Result<Wire, NoWire> {
        Ok(match (self, key) {
            (Self::Zmq(_), Some(_)) => return Err(NoWire::NoCurve),
            (Self::Zmq(context), None) => Wire::Zmq(ZmqWire::open(context, target, times, now)?),
            (Self::Own(_), None) => Wire::Own(Box::new(OwnWire::open(target, Security::Null, now)?)),
            (Self::Own(pair), Some(server)) => {
                let keys = Arc::new(ClientKeys { pair: pair.clone(), server });
                Wire::Own(Box::new(OwnWire::open(target, Security::CurveClient(keys), now)?))
            }
        })
    }

    /// By which receivers that want CURVE know us.
    pub(super) const fn key(&self) -> Option<PublicKey> {
        match self {
            Self::Zmq(_) => None,
            Self::Own(pair) => Some(pair.public()),
        }
    }
}

impl Wire {
    /// What to watch, and for what.
    pub(super) fn watched(&self) -> (RawFd, EpollFlags) {
        match self {
            Self::Zmq(wire) => (wire.descriptor(), EpollFlags::EPOLLIN),
            Self::Own(wire) => (wire.descriptor(), OwnWire::NEWS),
        }
    }

    /// What is known of the connection.
    pub(super) fn flow(&self) -> Flow {
        match self {
            Self::Zmq(wire) => wire.flow(),
            Self::Own(wire) => wire.flow(),
        }
    }

    /// When reading goes on, if it pauses.
    pub(super) fn paused_until(&self) -> Option<Mono> {
        match self {
            Self::Zmq(wire) => wire.paused_until(),
            Self::Own(wire) => wire.paused_until(),
        }
    }

    /// Whether somebody is there who has not completed the handshake so far.
    pub(super) const fn is_shaking(&self) -> bool {
        match self {
            // It is not told.
            Self::Zmq(_) => false,
            Self::Own(wire) => wire.is_shaking(),
        }
    }

    /// Whether it can be closed without losing a frame that it has taken.
    pub(super) fn is_drained(&self) -> bool {
        match self {
            // libzmq goes on delivering after the close.
            Self::Zmq(_) => true,
            Self::Own(wire) => wire.is_drained(),
        }
    }

    /// Lets the socket deliver for another time than the configured one when it is closed.
    pub(super) fn set_linger(&self, linger: Duration) {
        match self {
            Self::Zmq(wire) => wire.set_linger(linger),
            // The kernel delivers what it has.
            Self::Own(_) => {}
        }
    }

    /// Sends what waits and reads what came. `has_news` says that the descriptor was ready, and not just for writing.
    pub(super) fn serve(
        &mut self,
        ends: (&mut FrameQueue, &mut Inbox),
        peer: &Arc<PushAddress>,
        now: Mono,
        has_news: bool,
    ) -> Served {
        match self {
            Self::Zmq(wire) => wire.serve(ends, peer, now, has_news),
            Self::Own(wire) => wire.serve(ends, peer, now, has_news),
        }
    }
}
