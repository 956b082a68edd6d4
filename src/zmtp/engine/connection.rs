//! The state machine of a connection.

use super::command::{self, Command};
use super::frame::{self, Frame, FrameReader, MORE};
use super::greeting::{GREETING_BYTES, GreetingReader, SIGNATURE_BYTES, own_greeting};
use super::handshake::Handshake;
use super::keys::{PublicKey, Security};
use super::liveness::Liveness;
use super::outbox::Outbox;
use super::session::{OVERHEAD_BYTES, Session};
use super::subscriptions::subscription;
use super::{DisconnectReason, Full, Kind, Limits, Timer};
use crate::envelope::TooLong;
use base::Mono;

/// Maximum overhead of a frame.
const FRAME_BYTES: usize = 9 + OVERHEAD_BYTES;

/// The settings of a connection.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Type of the socket that it belongs to.
    pub kind: Kind,
    /// Limits for its peer.
    pub limits: Limits,
    /// Security of the connection.
    pub security: Security,
}

/// The peer, as declared in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its socket type, which is compatible with ours.
    pub kind: Kind,
    /// Whether it supports PING, SUBSCRIBE and CANCEL.
    pub is_3_1: bool,
    /// Its public key, if the connection is secured.
    pub key: Option<PublicKey>,
}

/// An event that results from input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete, so messages may be sent.
    Opened(Peer),
    /// A message with all its parts, at least one.
    Message(Vec<Vec<u8>>),
    /// A message that is too long: the parts before the one that is too long, which are its envelope.
    TooLong(Vec<Vec<u8>>, TooLong),
    /// The peer subscribes to messages with this prefix.
    Subscribed(Vec<u8>),
    /// The peer cancels this subscription.
    Cancelled(Vec<u8>),
}

#[derive(Debug)]
pub(super) enum State {
    Greeting {
        theirs: GreetingReader,
        /// Number of bytes of our own greeting that have been queued.
        said: usize,
    },
    Handshake {
        is_3_1: bool,
    },
    Open(Peer),
    Over,
}

/// The skipped parts of a message that is too long.
#[derive(Clone, Copy, Debug, Default)]
struct Skipped {
    parts: usize,
    bytes: u64,
}

/// One connection; see the [module](super).
#[derive(Debug)]
pub struct Connection {
    pub(super) settings: Settings,
    pub(super) state: State,
    pub(super) handshake: Handshake,
    /// The session of an open, secured connection.
    pub(super) session: Option<Session>,
    started: Mono,
    pub(super) reader: FrameReader,
    /// The parts of an incomplete message.
    pub(super) parts: Vec<Vec<u8>>,
    pub(super) parts_bytes: usize,
    /// Set if a part of the incomplete message was too long.
    pub(super) too_long: Option<TooLong>,
    skipped: Skipped,
    pub(super) outbox: Outbox,
    pub(super) liveness: Liveness,
}

impl Connection {
    /// A connection that we have made. Our greeting is in [`Self::output`]. The seed is for the CURVE keys, so it must
    /// be secret and used only once.
    #[must_use]
    pub fn new(now: Mono, settings: Settings, seed: [u8; 32]) -> Self {
        Self::begin(now, settings, seed, GREETING_BYTES)
    }

    /// As [`Self::new`], for a connection that was made to us. Like libzmq, it sends only its signature until the peer
    /// has begun to send. JeroMQ forgets to watch some of its new connections, and replaces such a connection only if
    /// it has not read a whole greeting by then.
    #[must_use]
    pub fn accepted(now: Mono, settings: Settings, seed: [u8; 32]) -> Self {
        Self::begin(now, settings, seed, SIGNATURE_BYTES)
    }

    fn begin(now: Mono, settings: Settings, seed: [u8; 32], said: usize) -> Self {
        let mut outbox = Outbox::default();
        let security = &settings.security;
        outbox.buffer().extend_from_slice(&own_greeting(security)[..said]);
        let handshake = Handshake::new(security, seed);
        let mut liveness = Liveness::new(now);
        liveness.waits(now);
        Self {
            settings,
            state: State::Greeting { theirs: GreetingReader::new(), said },
            handshake,
            session: None,
            started: now,
            reader: FrameReader::default(),
            parts: Vec::new(),
            parts_bytes: 0,
            too_long: None,
            skipped: Skipped::default(),
            outbox,
            liveness,
        }
    }

    /// Consumes input from the peer until an event results; `None` when the input is used up.
    ///
    /// # Errors
    /// When the connection must be closed.
    pub fn handle_input(&mut self, now: Mono, input: &mut &[u8]) -> Result<Option<Event>, DisconnectReason> {
        if !input.is_empty() {
            self.liveness.heard(now);
        }
        let outcome = self.read(now, input);
        if let Err(reason) = &outcome {
            self.last_word(reason);
        }
        outcome
    }

    fn read(&mut self, now: Mono, input: &mut &[u8]) -> Result<Option<Event>, DisconnectReason> {
        while !input.is_empty() {
            if let State::Over = self.state {
                return Err(DisconnectReason::Over);
            }
            if let State::Greeting { theirs, said } = &mut self.state {
                let greeting = theirs.read(input, self.settings.security.mechanism());
                if greeting != Err(DisconnectReason::NotZmtp) {
                    let left = std::mem::replace(said, GREETING_BYTES)..GREETING_BYTES;
                    self.outbox.buffer().extend_from_slice(&own_greeting(&self.settings.security)[left]);
                }
                if let Some(theirs) = greeting? {
                    self.handshake.begin(self.settings.kind, self.outbox.buffer());
                    self.state = State::Handshake { is_3_1: theirs.is_3_1 };
                }
                self.note_output(now);
                continue;
            }
            let Some(frame) = self.reader.read(input, self.allowance())? else { return Ok(None) };
            let event = match self.state {
                State::Greeting { .. } | State::Over => return Err(DisconnectReason::Over),
                State::Handshake { is_3_1 } => self.shake(now, &frame, is_3_1)?,
                State::Open(_) => self.frame(now, frame)?,
            };
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    fn note_output(&mut self, now: Mono) {
        if !self.outbox.is_empty() {
            self.liveness.waits(now);
        }
    }

    fn shake(&mut self, now: Mono, frame: &Frame, is_3_1: bool) -> Result<Option<Event>, DisconnectReason> {
        if !frame.is_command {
            return Err(DisconnectReason::Protocol("a message comes before the handshake is done"));
        }
        let done = self.handshake.handle(self.settings.kind, &frame.body, self.outbox.buffer())?;
        self.note_output(now);
        let Some(done) = done else { return Ok(None) };
        let peer = Peer { kind: done.kind, is_3_1, key: done.key };
        self.session = done.session;
        // The secrets of the handshake are no longer needed.
        self.handshake = Handshake::Null;
        self.state = State::Open(peer);
        Ok(Some(Event::Opened(peer)))
    }

    fn frame(&mut self, now: Mono, mut frame: Frame) -> Result<Option<Event>, DisconnectReason> {
        if let Some(session) = &mut self.session {
            // A skipped box cannot be opened, and is taken for the last part of its message.
            if frame.too_long.is_none() {
                frame = session.open(frame)?;
                self.settings.limits.check(&mut frame, self.parts_bytes, self.skips())?;
            }
        }
        if frame.is_command { self.command(now, &frame.body) } else { self.part(frame) }
    }

    fn command(&mut self, now: Mono, body: &[u8]) -> Result<Option<Event>, DisconnectReason> {
        let publishes = self.settings.kind.publishes();
        match Command::parse(body)? {
            Command::Ping { ttl, context } => {
                self.liveness.set_ttl(ttl);
                self.queue_command(now, &command::pong(context));
                if self.outbox.overflows() {
                    return Err(DisconnectReason::NotReading);
                }
            }
            Command::Subscribe(prefix) if publishes => return Ok(Some(Event::Subscribed(prefix.to_vec()))),
            Command::Cancel(prefix) if publishes => return Ok(Some(Event::Cancelled(prefix.to_vec()))),
            Command::Error(reason) => return Err(DisconnectReason::Refused(reason)),
            Command::Pong | Command::Subscribe(_) | Command::Cancel(_) | Command::Unknown => {}
        }
        Ok(None)
    }

    fn part(&mut self, frame: Frame) -> Result<Option<Event>, DisconnectReason> {
        let skipped = &mut self.skipped;
        if self.parts.len() + skipped.parts >= self.settings.limits.parts_max {
            return Err(DisconnectReason::TooManyParts(self.settings.limits.parts_max));
        }
        self.parts_bytes += frame.body.len();
        let (bytes, too_long) = (frame.body.len() as u64, frame.too_long);
        if let Some(too_long) = too_long {
            self.too_long.get_or_insert(too_long);
        }
        match self.too_long {
            Some(first) => {
                // A message whose parts never end must not be read forever.
                skipped.parts += 1;
                skipped.bytes = skipped.bytes.saturating_add(too_long.map_or(bytes, |too_long| too_long.bytes));
                if skipped.bytes > frame::SKIPPED_BYTES_MAX {
                    return Err(DisconnectReason::TooLong { bytes: skipped.bytes, max: first.max });
                }
            }
            None => self.parts.push(frame.body),
        }
        if frame.has_more {
            return Ok(None);
        }
        (self.parts_bytes, self.skipped) = (0, Skipped::default());
        let message = std::mem::take(&mut self.parts);
        if let Some(too_long) = self.too_long.take() {
            return Ok(Some(Event::TooLong(message, too_long)));
        }
        Ok(if self.settings.kind.publishes() { subscription(&message) } else { Some(Event::Message(message)) })
    }

    /// Ends the connection. Tells the peer the reason, if it can understand it and cannot know it otherwise.
    fn last_word(&mut self, reason: &DisconnectReason) {
        if matches!(self.state, State::Handshake { .. }) && matches!(reason, DisconnectReason::SocketType(_)) {
            command::write_error(self.outbox.buffer(), "Invalid socket type");
        }
        self.state = State::Over;
    }

    /// Queues an ERROR, even after the handshake, when the peer may ignore it. The caller then closes the connection.
    /// Only for connections without keys.
    pub fn refuse(&mut self, now: Mono, reason: &str) {
        command::write_error(self.outbox.buffer(), reason);
        self.note_output(now);
    }

    /// Queues a message. After the last of several messages, write [`Self::output`].
    ///
    /// # Errors
    /// When the queue is full, or the connection is not open.
    pub fn send<Part: AsRef<[u8]>>(&mut self, now: Mono, parts: &[Part]) -> Result<(), Full> {
        let State::Open(_) = self.state else { return Err(Full) };
        let bytes = parts.iter().map(|part| part.as_ref().len() + FRAME_BYTES).sum();
        self.outbox.admit(bytes, &self.settings.limits)?;
        for (index, part) in parts.iter().enumerate() {
            let flags = if index + 1 < parts.len() { MORE } else { 0 };
            self.write_frame(flags, part.as_ref());
        }
        self.outbox.end_message();
        self.liveness.waits(now);
        Ok(())
    }

    /// Subscribes to messages with this prefix.
    pub fn subscribe(&mut self, now: Mono, prefix: &[u8]) {
        match self.state {
            State::Open(Peer { is_3_1: true, .. }) => self.queue_command(now, &command::subscribe(prefix)),
            State::Open(_) => {
                self.write_frame(0, &[&[1], prefix].concat());
                self.liveness.waits(now);
            }
            State::Greeting { .. } | State::Handshake { .. } | State::Over => {}
        }
    }

    fn queue_command(&mut self, now: Mono, command: &[u8]) {
        let before = self.outbox.unwritten().len();
        self.write_frame(frame::COMMAND, command);
        self.outbox.end_command(self.outbox.unwritten().len() - before);
        self.liveness.waits(now);
    }

    fn write_frame(&mut self, flags: u8, body: &[u8]) {
        let out = self.outbox.buffer();
        match &mut self.session {
            Some(session) => session.write_frame(out, flags, body),
            None => {
                frame::write_header(out, flags, body.len());
                out.extend_from_slice(body);
            }
        }
    }

    /// Bytes to write to the stream.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        self.outbox.unwritten()
    }

    /// The stream has taken `count` bytes of [`Self::output`].
    pub fn handle_written(&mut self, now: Mono, count: usize) {
        let was_clogged = self.is_clogged();
        self.outbox.handle_written(count);
        if count > 0 {
            self.liveness.moved(now, self.outbox.is_empty());
            if was_clogged {
                self.liveness.reads(now);
            }
        }
    }

    /// Whether the peer should read before more is read from it, because its queue is at least half full.
    #[must_use]
    pub fn is_clogged(&self) -> bool {
        self.outbox.is_half_full(&self.settings.limits)
    }

    /// The peer, once the handshake is complete.
    #[must_use]
    pub const fn peer(&self) -> Option<Peer> {
        match self.state {
            State::Open(peer) => Some(peer),
            State::Greeting { .. } | State::Handshake { .. } | State::Over => None,
        }
    }

    /// Whether the peer is a subscriber, as far as is known.
    #[must_use]
    pub const fn subscribes(&self) -> bool {
        self.settings.kind.publishes()
    }

    /// The reason that the end of the stream at this point implies.
    #[must_use]
    pub const fn meaning_of_end(&self) -> Option<DisconnectReason> {
        match self.state {
            State::Handshake { .. } if self.handshake.is_unanswered() => Some(DisconnectReason::Unanswered),
            State::Greeting { .. } | State::Handshake { .. } | State::Open(_) | State::Over => None,
        }
    }

    /// Bytes that the peer makes us hold.
    #[must_use]
    pub fn held(&self) -> usize {
        let parts: usize = self.parts.iter().map(Vec::capacity).sum();
        parts + self.parts.capacity() * size_of::<Vec<u8>>() + self.reader.held() + self.outbox.unwritten().len()
    }

    /// The next deadline, and its reason.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Mono, Timer)> {
        let limits = &self.settings.limits;
        match self.state {
            State::Open(peer) => self.liveness.next(limits, peer.is_3_1),
            State::Greeting { .. } | State::Handshake { .. } => {
                let handshake = (self.started + limits.handshake_timeout, Timer::Handshake);
                self.liveness.stall(limits).into_iter().chain([handshake]).min()
            }
            State::Over => None,
        }
    }

    /// Handles everything that is due.
    ///
    /// # Errors
    /// When the connection must be closed.
    pub fn handle_timeout(&mut self, now: Mono) -> Result<(), DisconnectReason> {
        while let Some((at, timer)) = self.poll_timeout()
            && at <= now
        {
            let reason = match timer {
                Timer::Handshake => DisconnectReason::SlowHandshake,
                Timer::Stall => DisconnectReason::NotReading,
                Timer::Silence => DisconnectReason::Silent,
                Timer::Ping => {
                    self.ask(now);
                    continue;
                }
            };
            self.state = State::Over;
            return Err(reason);
        }
        Ok(())
    }

    fn ask(&mut self, now: Mono) {
        self.liveness.asked(now);
        // Without a TTL, because our own silence proves nothing: a controller may be stopped for a while.
        self.queue_command(now, &command::ping(std::time::Duration::ZERO));
    }
}
