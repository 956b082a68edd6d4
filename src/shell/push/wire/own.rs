//! A stream of our own with a DEALER on it.
//!
//! It is told of news once each, so it reads and writes until the stream has nothing more or takes nothing more, or says that
//! there is more to do. A push is no news: it costs one write, and nothing is read for it.

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::epoll::EpollFlags;

use super::{Flow, LOOKS_MAX, Outcome, RECEIVE_BYTES_MAX, Served};
use crate::engine::zmtp::{Connection, Event, Kind, Limits, Security, Settings};
use crate::shell::endpoint::{Address, Stream};
use crate::shell::push::inbox::Inbox;
use crate::shell::push::pace::Pace;
use crate::shell::push::queue::FrameQueue;
use crate::types::Mono;
use crate::types::PushAddress;

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

/// One open stream.
pub(in crate::shell::push) struct OwnWire {
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

impl OwnWire {
    pub(in crate::shell::push) const NEWS: EpollFlags =
        EpollFlags::EPOLLIN.union(EpollFlags::EPOLLOUT).union(EpollFlags::EPOLLRDHUP).union(EpollFlags::EPOLLET);

    pub(in crate::shell::push) fn open((ip, port): (IpAddr, u16), security: Security, now: Mono) -> io::Result<Self> {
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
        let is_keyed = !matches!(security, Security::Null);
        let settings = Settings { kind: Kind::Dealer, limits, security };
        Ok(Self {
            stream: Stream::connect(&Address::Tcp(SocketAddr::new(ip, port)))?,
            connection: Connection::new(now, settings, rand::random()),
            flow: Flow::Connecting { since: now },
            is_keyed,
            is_reached: false,
            pace: Pace::default(),
            may_read: true,
            rest: Vec::new(),
        })
    }

    pub(in crate::shell::push) fn descriptor(&self) -> RawFd {
        self.stream.as_fd().as_raw_fd()
    }

    pub(in crate::shell::push) const fn flow(&self) -> Flow {
        self.flow
    }

    pub(in crate::shell::push) fn paused_until(&self) -> Option<Mono> {
        self.pace.paused_until()
    }

    pub(in crate::shell::push) const fn is_shaking(&self) -> bool {
        self.is_reached && self.flow.is_connecting()
    }

    pub(in crate::shell::push) fn is_drained(&self) -> bool {
        self.flow.is_connecting() || self.connection.output().is_empty()
    }

    pub(in crate::shell::push) fn serve(
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
                queue.pop();
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

impl Drop for OwnWire {
    fn drop(&mut self) {
        // Bytes that were never read would make the close a reset, which takes the last frames from the peer.
        let _ = self.stream.shutdown(Shutdown::Write);
        let _ = self.stream.read(&mut [0; CHUNK_BYTES]);
    }
}
