//! One receiver: its queue, the stage of its socket, and its deadlines.

use std::borrow::Cow;
use std::sync::Arc;

use super::backlog::FrameQueue;
use super::config::PushConfig;
use super::effect::Served;
use super::pace::Pace;
use base::{Mono, PublicKey, PushAddress, words};

/// An address with queued frames, with a socket, or with both.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) address: Arc<PushAddress>,
    pub(super) queue: FrameQueue,
    pub(super) stage: Stage,
    /// Since when frames have been waiting for a connection. Replacing the oldest frame does not change it.
    pub(super) waiting_since: Mono,
    /// Time of the last frame in either direction.
    pub(super) used_at: Mono,
    /// Latest time to send frames that were held back for batching.
    pub(super) send_by: Option<Mono>,
    /// Whether it is in the turn's list of receivers to serve.
    pub(super) is_marked: bool,
    /// Whether its socket has reported more than readiness for writing since it was last served.
    pub(super) has_news: bool,
    /// Number of refused connections since the last accepted one.
    pub(super) refusals: u32,
    /// Whether the last of them was lost during the handshake.
    pub(super) is_misunderstood: bool,
}

/// The stage of a receiver on the way to a connection.
#[derive(Debug)]
pub(super) enum Stage {
    /// It waits in the line for a socket.
    Waiting {
        /// When it joined the line.
        since: Mono,
    },
    /// Its host name is being looked up.
    Resolving,
    /// Its connection was lost, or no socket could be opened. It will rejoin the line.
    Resting {
        /// When it rejoins.
        until: Mono,
    },
    /// It has a socket.
    Open(Socket),
}

/// The state of an open socket.
#[derive(Debug)]
pub(super) struct Socket {
    flow: Flow,
    pub(super) pace: Pace,
    /// Whether bytes have moved in either direction. Written bytes count, too, because what a receiver sends before it
    /// disconnects may be lost with the connection.
    is_reached: bool,
    is_drained: bool,
}

/// Whether an open socket can be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Not connected yet.
    Connecting {
        /// When the socket was opened.
        since: Mono,
    },
    /// Connected and writable.
    Up,
    /// Connected, but the receiver does not read as fast as we send.
    Full {
        /// When bytes were last written.
        since: Mono,
    },
}

/// The action at the deadline of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Rejoin the line.
    Rejoin,
    /// Continue to read, or send frames that were held back.
    Serve,
    /// Close the unused socket.
    CloseIdle,
    /// Drop the frames and close the socket.
    GiveUp(DropReason),
}

/// Why frames for a receiver are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DropReason {
    Unreachable,
    /// The receiver answers, but never completes the handshake.
    Handshake,
    NotReading,
    /// Its host name has no usable address, for this reason.
    Unresolved(&'static str),
    /// Other receivers occupy all sockets.
    Crowded,
}

impl Receiver {
    /// For a receiver that joins the line.
    pub(super) fn new(address: Arc<PushAddress>, now: Mono) -> Self {
        Self {
            address,
            queue: FrameQueue::default(),
            stage: Stage::Waiting { since: now },
            waiting_since: now,
            used_at: now,
            send_by: None,
            is_marked: false,
            has_news: false,
            refusals: 0,
            is_misunderstood: false,
        }
    }

    pub(super) const fn socket(&self) -> Option<&Socket> {
        match &self.stage {
            Stage::Open(socket) => Some(socket),
            Stage::Waiting { .. } | Stage::Resolving | Stage::Resting { .. } => None,
        }
    }

    pub(super) fn flow(&self) -> Option<Flow> {
        self.socket().map(|socket| socket.flow)
    }

    pub(super) const fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting { .. })
    }

    /// Whether a frame can be written at once.
    pub(super) fn is_up(&self) -> bool {
        self.flow() == Some(Flow::Up)
    }

    pub(super) fn connecting_since(&self) -> Option<Mono> {
        match self.flow()? {
            Flow::Connecting { since } => Some(since),
            Flow::Up | Flow::Full { .. } => None,
        }
    }

    pub(super) fn full_since(&self) -> Option<Mono> {
        match self.flow()? {
            Flow::Full { since } => Some(since),
            Flow::Connecting { .. } | Flow::Up => None,
        }
    }

    /// Whether its socket can be closed without losing a frame that the connection has taken.
    pub(super) fn is_drained(&self) -> bool {
        self.socket().is_none_or(|socket| socket.is_drained || socket.is_connecting())
    }

    /// Why it is not connected, as far as known.
    pub(super) fn unreachable(&self) -> DropReason {
        let is_shaking = self.socket().is_some_and(Socket::is_shaking);
        if is_shaking || self.is_misunderstood { DropReason::Handshake } else { DropReason::Unreachable }
    }

    /// The next deadline and its action.
    pub(super) fn due(&self, config: &PushConfig) -> Option<(Mono, Due)> {
        let given_up_at = self.waiting_since + config.connect_timeout;
        match &self.stage {
            Stage::Waiting { .. } => Some((given_up_at, Due::GiveUp(DropReason::Crowded))),
            Stage::Resolving => {
                Some((given_up_at, Due::GiveUp(DropReason::Unresolved("its host name is not answered"))))
            }
            Stage::Resting { until } if *until < given_up_at => Some((*until, Due::Rejoin)),
            Stage::Resting { .. } => Some((given_up_at, Due::GiveUp(DropReason::Unreachable))),
            Stage::Open(socket) => {
                let resume = socket.pace.paused_until();
                let serve = resume.into_iter().chain(self.send_by).min().map(|at| (at, Due::Serve));
                let end = match socket.flow {
                    _ if self.queue.is_empty() => Some((self.used_at + config.idle_timeout, Due::CloseIdle)),
                    Flow::Connecting { .. } => Some((given_up_at, Due::GiveUp(DropReason::Unreachable))),
                    Flow::Full { since } => Some((since + config.idle_timeout, Due::GiveUp(DropReason::NotReading))),
                    Flow::Up => None,
                };
                serve.into_iter().chain(end).min_by_key(|(at, _)| *at)
            }
        }
    }
}

impl Socket {
    /// For a socket that begins to connect.
    pub(super) fn new(now: Mono) -> Self {
        Self { flow: Flow::Connecting { since: now }, pace: Pace::default(), is_reached: false, is_drained: true }
    }

    pub(super) const fn flow(&self) -> Flow {
        self.flow
    }

    pub(super) const fn is_connecting(&self) -> bool {
        matches!(self.flow, Flow::Connecting { .. })
    }

    /// Whether a peer answers but has not completed the handshake.
    pub(super) const fn is_shaking(&self) -> bool {
        self.is_reached && self.is_connecting()
    }

    pub(super) const fn handle_served(&mut self, now: Mono, served: &Served) {
        self.is_reached = served.is_reached;
        self.is_drained = served.is_drained;
        self.flow = match self.flow {
            before if !served.is_up => before,
            Flow::Full { since } if served.is_blocked && !served.has_written => Flow::Full { since },
            _ if served.is_blocked => Flow::Full { since: now },
            Flow::Full { .. } if !served.is_drained => Flow::Full { since: now },
            Flow::Connecting { .. } | Flow::Up | Flow::Full { .. } => Flow::Up,
        };
    }
}

impl DropReason {
    /// The reason as the end of a sentence about the address.
    pub(super) fn text(self, address: &PushAddress, ours: PublicKey) -> Cow<'static, str> {
        let text = match self {
            Self::Unreachable => "it cannot be reached",
            Self::Handshake => return handshake_text(address, ours).into(),
            Self::NotReading => "it does not read",
            Self::Unresolved(text) => text,
            Self::Crowded => "other addresses occupy all sockets",
        };
        text.into()
    }
}

fn handshake_text(address: &PushAddress, ours: PublicKey) -> String {
    let field = words::ADDRESS_KEY;
    match address.key {
        Some(_) => format!(
            "it does not complete the CURVE handshake; {field} must be its public key, and it must admit the key of this \
             controller, {ours}"
        ),
        None => {
            format!("it does not complete the handshake; if it requires CURVE, submit with its public key as {field}")
        }
    }
}
