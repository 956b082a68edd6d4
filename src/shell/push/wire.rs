//! The connection to one address: a stream with a DEALER on it.
//!
//! Served at once are 16 KiB in and 256 KiB out; 64 KiB are encoded ahead, and the kernel has frames beyond those.
//!
//! It is told of news once each, so it reads and writes until the stream has nothing more or takes nothing more, or says that
//! there is more to do. A push is no news: it costs one write, and nothing is read for it.

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::EventFlags;

use super::inbox::Inbox;
use super::pace::Pace;
use super::queue::FrameQueue;
use crate::engine::zmtp::{ClientKeys, Connection, Event, KeyPair, Kind, Limits, Security, Settings};
use crate::shell::endpoint::{Address, Stream};
use crate::types::{Mono, PublicKey, PushAddress};

/// Bytes of a frame from a peer. The connection is cut beyond it, so an echo of what we push must fit.
const RECEIVE_BYTES_MAX: usize = 262_144;

/// Looks at one socket before the others get their turn: reads, and writes.
const LOOKS_MAX: usize = 4;

/// Bytes that are encoded ahead of the stream and written at once; a lost connection takes no more than these with it.
const AHEAD_BYTES: usize = 65_536;

/// Bytes that wait for a peer at the most: those ahead and one long frame, or answers to its questions.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Parts of a message from a peer. An acknowledgement has one, or two with a delimiter.
const RECEIVE_PARTS_MAX: usize = 16;

/// Bytes read at once. Acknowledgements are short.
const CHUNK_BYTES: usize = 4096;

/// What a step of a handshake with keys counts for among the bytes of a turn: it takes as long as writing so many.
const KEYED_STEP_BYTES: usize = 65_536;

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

/// One open stream.
pub(super) struct Wire {
    stream: Stream,
    connection: Connection,
    flow: Flow,
    is_keyed: bool,
    /// Bytes have gone one way or the other. What a peer says before it cuts us off may be lost with the connection.
    is_reached: bool,
    pace: Pace,
    /// The stream has not said that it has nothing more since it had news.
    may_read: bool,
    /// What was read and not looked at so far.
    rest: Vec<u8>,
}

/// The connection is gone, or was cut.
struct Lost;

impl Wire {
    const NEWS: EventFlags = EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);

    /// Opens a wire and starts to connect as the owner of `pair`; a receiver with a key must prove that it has the secret to it.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub(super) fn open(
        (ip, port): (IpAddr, u16),
        pair: &KeyPair,
        key: Option<PublicKey>,
        now: Mono,
    ) -> io::Result<Self> {
        let security = key.map_or(Security::Null, |server| {
            Security::CurveClient(Arc::new(ClientKeys { pair: pair.clone(), server }))
        });
        let limits = Limits {
            message_bytes_max: RECEIVE_BYTES_MAX,
            parts_max: RECEIVE_PARTS_MAX,
            queue_messages_max: usize::MAX,
            queue_bytes_max: WAITING_BYTES_MAX,
            // The table has these two in its own hand, by address and not by connection.
            handshake_timeout: Duration::MAX,
            stall_timeout: Duration::MAX,
            ping_interval: None,
        };
        let settings = Settings { kind: Kind::Dealer, limits, security };
        Ok(Self {
            stream: Stream::connect(&Address::Tcp(SocketAddr::new(ip, port)))?,
            connection: Connection::new(now, settings, rand::random()),
            flow: Flow::Connecting { since: now },
            is_keyed: key.is_some(),
            is_reached: false,
            pace: Pace::default(),
            may_read: true,
            rest: Vec::new(),
        })
    }

    /// What to watch, and for what.
    pub(super) fn watched(&self) -> (BorrowedFd<'_>, EventFlags) {
        (self.stream.as_fd(), Self::NEWS)
    }

    /// What is known of the connection.
    pub(super) const fn flow(&self) -> Flow {
        self.flow
    }

    /// When reading goes on, if it pauses.
    pub(super) fn paused_until(&self) -> Option<Mono> {
        self.pace.paused_until()
    }

    /// Whether a peer answers that has yet to complete the handshake.
    pub(super) const fn is_shaking(&self) -> bool {
        self.is_reached && self.flow.is_connecting()
    }

    /// Whether it can be closed without losing a frame that it has taken.
    pub(super) fn is_drained(&self) -> bool {
        self.flow.is_connecting() || self.connection.output().is_empty()
    }

    /// Sends what waits and reads what came. `has_news` says that the descriptor was ready, and not just for writing.
    pub(super) fn serve(
        &mut self,
        (queue, inbox): (&mut FrameQueue, &mut Inbox),
        peer: &Arc<PushAddress>,
        now: Mono,
        has_news: bool,
    ) -> Served {
        self.pace.tick(now);
        self.may_read |= has_news;
        let mut served = Served { outcome: Outcome::Settled, sent: 0, received: 0, bytes: 0 };
        let may_compute = self.is_keyed && self.connection.peer().is_none();
        let read = self.read(inbox, peer, now, &mut served);
        if may_compute && served.bytes > 0 {
            served.bytes += KEYED_STEP_BYTES;
        }
        let outcome = read.and_then(|read| Ok(read.max(self.write(queue, now, &mut served)?)));
        served.outcome = outcome.unwrap_or(Outcome::Lost);
        served
    }

    fn read(
        &mut self,
        inbox: &mut Inbox,
        peer: &Arc<PushAddress>,
        now: Mono,
        served: &mut Served,
    ) -> Result<Outcome, Lost> {
        for _ in 0..LOOKS_MAX {
            if self.pace.left() == 0 {
                // The end of its window is a deadline of its own.
                return Ok(Outcome::Settled);
            }
            if self.rest.is_empty() {
                if !self.may_read {
                    return Ok(Outcome::Settled);
                }
                let mut chunk = [0; CHUNK_BYTES];
                match self.stream.read(&mut chunk) {
                    Ok(0) => return Err(Lost),
                    Ok(count) => {
                        self.is_reached = true;
                        self.rest.extend_from_slice(&chunk[..count]);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.may_read = false;
                        return Ok(Outcome::Settled);
                    }
                    Err(_) => return Err(Lost),
                }
                served.bytes += self.rest.len();
                // So that questions without end are paced as well.
                self.pace.spend(1);
            }
            self.take_rest(inbox, peer, now, served)?;
        }
        Ok(Outcome::More)
    }

    /// Looks at what was read, as far as the pace allows.
    fn take_rest(
        &mut self,
        inbox: &mut Inbox,
        peer: &Arc<PushAddress>,
        now: Mono,
        served: &mut Served,
    ) -> Result<(), Lost> {
        let mut input = self.rest.as_slice();
        while let Some(event) = self.connection.handle_input(now, &mut input).map_err(|_| Lost)? {
            let Event::Message(parts) = event else { continue };
            for part in &parts {
                inbox.take(peer, part);
            }
            served.received += parts.len();
            self.pace.spend(parts.len());
            if self.pace.left() == 0 {
                break;
            }
        }
        let used = self.rest.len() - input.len();
        self.rest.drain(..used);
        Ok(())
    }

    fn write(&mut self, queue: &mut FrameQueue, now: Mono, served: &mut Served) -> Result<Outcome, Lost> {
        let is_open = self.connection.peer().is_some();
        if is_open && self.flow.is_connecting() {
            // Here and not when all is written: that may take more turns than a stop has patience for who only connects.
            self.flow = Flow::Up { sent: 0 };
        }
        let mut moved = false;
        for _ in 0..LOOKS_MAX {
            while is_open
                && self.connection.output().len() < AHEAD_BYTES
                && let Some(frame) = queue.front()
                && self.connection.send(now, &[frame]).is_ok()
            {
                queue.sent(now);
                served.sent += 1;
            }
            let output = self.connection.output();
            if output.is_empty() {
                if is_open {
                    self.flow = Flow::Up { sent: 0 };
                }
                return Ok(Outcome::Settled);
            }
            match self.stream.write(&output[..output.len().min(AHEAD_BYTES)]) {
                Ok(count) => {
                    self.is_reached = true;
                    self.connection.handle_written(now, count);
                    served.bytes += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.flow = self.blocked(now, moved);
                    return Ok(Outcome::Settled);
                }
                Err(_) => return Err(Lost),
            }
            moved = true;
        }
        Ok(Outcome::More)
    }

    fn blocked(&self, now: Mono, moved: bool) -> Flow {
        match self.flow {
            Flow::Full { since } if !moved => Flow::Full { since },
            Flow::Connecting { since } => Flow::Connecting { since },
            Flow::Up { .. } | Flow::Full { .. } => Flow::Full { since: now },
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // Bytes that were never read would make the close a reset, which takes the last frames from the peer.
        let _ = self.stream.shutdown(Shutdown::Write);
        let _ = self.stream.read(&mut [0; CHUNK_BYTES]);
    }
}
