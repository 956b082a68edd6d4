//! The connection to one address: a stream with a DEALER on it.
//!
//! One call serves at most 16 KiB in and 256 KiB out. At most 64 KiB are encoded ahead of the stream, and the kernel
//! buffers further frames.
//!
//! Epoll reports an event once, so a call reads and writes until the stream would block in both directions, or returns
//! that there is more to do. A push is not an event: it costs one write and no read.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;
use rustix::event::epoll::EventFlags;

use crate::engine::{ClientKeys, Connection, Event, KeyPair, Kind, Limits, Security, Settings};
use crate::push::{Exchange, Progress, Served};
use crate::sockets::{Address, Stream};
use base::{Mono, PublicKey};

/// Maximum bytes of a frame from a peer. The connection is closed beyond it, so an echo of a pushed frame must fit.
const RECEIVE_BYTES_MAX: usize = 262_144;

/// Maximum rounds of reading and writing on one socket before the others get their turn.
const LOOKS_MAX: usize = 4;

/// Bytes encoded ahead of the stream and written at once. A broken connection loses no more encoded bytes than these.
const AHEAD_BYTES: usize = 65_536;

/// Maximum encoded bytes for a peer: those ahead of the stream and one long frame, or replies to its pings.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Maximum parts of a message from a peer. An acknowledgement has one part, or two with a delimiter.
const RECEIVE_PARTS_MAX: usize = 16;

/// Bytes read at once. Acknowledgements are short.
const CHUNK_BYTES: usize = 4096;

/// Bytes that a step of a CURVE handshake counts as in the budget of a turn, because it takes as long as writing that many.
const KEYED_STEP_BYTES: usize = 65_536;

/// One open stream.
pub(super) struct Wire {
    stream: Stream,
    connection: Connection,
    is_keyed: bool,
    is_reached: bool,
    /// Whether the stream may have bytes to read: set by an event, cleared when a read would block.
    may_read: bool,
    /// Bytes that were read but not parsed.
    rest: Vec<u8>,
}

/// The connection is closed, or the peer has violated the protocol.
struct Lost;

impl Wire {
    const NEWS: EventFlags = EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);

    /// Opens a wire and starts to connect as the owner of `pair`. A receiver with a key must prove that it owns the key.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub(super) fn open(target: SocketAddr, pair: &KeyPair, key: Option<PublicKey>, now: Mono) -> io::Result<Self> {
        let security = key.map_or(Security::Null, |server| {
            Security::CurveClient(Arc::new(ClientKeys { pair: pair.clone(), server }))
        });
        let limits = Limits {
            message_bytes_max: RECEIVE_BYTES_MAX,
            long: None,
            parts_max: RECEIVE_PARTS_MAX,
            queue_messages_max: usize::MAX,
            queue_bytes_max: WAITING_BYTES_MAX,
            // The push engine enforces these two limits, per receiver instead of per connection.
            handshake_timeout: Duration::MAX,
            stall_timeout: Duration::MAX,
            ping_interval: None,
        };
        let settings = Settings { kind: Kind::Dealer, limits, security };
        Ok(Self {
            stream: Stream::connect(&Address::Tcp(target))?,
            connection: Connection::new(now, settings, rand::random()),
            is_keyed: key.is_some(),
            is_reached: false,
            may_read: true,
            rest: Vec::new(),
        })
    }

    /// The descriptor to watch, and the events to watch it for.
    pub(super) fn watched(&self) -> (BorrowedFd<'_>, EventFlags) {
        (self.stream.as_fd(), Self::NEWS)
    }

    /// Sends queued frames and reads what has arrived. `has_news` is false if the descriptor was ready for writing
    /// only, or not at all. `waited` records how long each frame has waited.
    pub(super) fn serve(
        &mut self,
        mut exchange: Exchange<'_>,
        waited: Option<&Histogram>,
        now: Mono,
        has_news: bool,
    ) -> Served {
        self.may_read |= has_news;
        let mut served = Served::default();
        let may_compute = self.is_keyed && self.connection.peer().is_none();
        let read = self.read(&mut exchange, now, &mut served);
        if may_compute && served.bytes > 0 {
            served.bytes += KEYED_STEP_BYTES;
        }
        let progress = read.and_then(|read| Ok(read.max(self.write(&mut exchange, waited, now, &mut served)?)));
        Served {
            progress: progress.unwrap_or(Progress::Lost),
            is_drained: self.connection.output().is_empty(),
            is_reached: self.is_reached,
            ..served
        }
    }

    fn read(&mut self, exchange: &mut Exchange<'_>, now: Mono, served: &mut Served) -> Result<Progress, Lost> {
        for _ in 0..LOOKS_MAX {
            if !exchange.may_receive() {
                // The receiver is served again when it may send more.
                return Ok(Progress::Settled);
            }
            if self.rest.is_empty() {
                if !self.may_read {
                    return Ok(Progress::Settled);
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
                        return Ok(Progress::Settled);
                    }
                    Err(_) => return Err(Lost),
                }
                served.bytes += self.rest.len();
                exchange.handle_read();
            }
            self.parse_rest(exchange, now, served)?;
        }
        Ok(Progress::More)
    }

    /// Parses the bytes that were read, as long as more frames may be received.
    fn parse_rest(&mut self, exchange: &mut Exchange<'_>, now: Mono, served: &mut Served) -> Result<(), Lost> {
        let mut input = self.rest.as_slice();
        while let Some(event) = self.connection.handle_input(now, &mut input).map_err(|_| Lost)? {
            let Event::Message(parts) = event else { continue };
            for part in &parts {
                exchange.handle_received(part);
            }
            served.received += parts.len();
            if !exchange.may_receive() {
                break;
            }
        }
        let used = self.rest.len() - input.len();
        self.rest.drain(..used);
        Ok(())
    }

    fn write(
        &mut self,
        exchange: &mut Exchange<'_>,
        waited: Option<&Histogram>,
        now: Mono,
        served: &mut Served,
    ) -> Result<Progress, Lost> {
        // Reported even if not everything is written, because a stop gives up receivers that are still connecting.
        served.is_up = self.connection.peer().is_some();
        for _ in 0..LOOKS_MAX {
            while served.is_up
                && self.connection.output().len() < AHEAD_BYTES
                && let Some(frame) = exchange.poll_transmit()
                && self.connection.send(now, &[frame]).is_ok()
            {
                let wait = exchange.handle_transmitted(now);
                if let Some(waited) = waited {
                    waited.observe(wait.as_secs_f64());
                }
                served.sent += 1;
            }
            let output = self.connection.output();
            if output.is_empty() {
                return Ok(Progress::Settled);
            }
            match self.stream.write(&output[..output.len().min(AHEAD_BYTES)]) {
                Ok(count) => {
                    self.is_reached = true;
                    self.connection.handle_written(now, count);
                    served.bytes += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    served.is_blocked = true;
                    return Ok(Progress::Settled);
                }
                Err(_) => return Err(Lost),
            }
            served.has_written = true;
        }
        Ok(Progress::More)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // Unread bytes would turn the close into a reset, which discards the last frames at the peer.
        let _ = self.stream.shutdown(Shutdown::Write);
        let _ = self.stream.read(&mut [0; CHUNK_BYTES]);
    }
}
