//! From bytes to a conversation: one connection, and everything that must be true of it after each step.
//!
//! | byte | meaning |
//! |---|---|
//! | 0 | [`Role`], which side we are and how it is secured |
//! | 1 | bytes of the pieces that come at a time: 0 is all at once, 255 pieces of any size |
//! | 2 | what else happens: [`HANDSHAKE_DONE`], [`SEALED`], [`NOBODY_READS`], [`WE_TALK`], [`TIME_PASSES`] |
//! | 3… | what the peer says; under [`SEALED`] frames that are put into valid boxes: flags, a length of two bytes, a body |

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::Mono;
use crypto_box::aead::AeadInPlace as _;
use crypto_box::{PublicKey, SalsaBox, SecretKey};
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use zmtp::engine::{
    ClientKeys, Connection, DisconnectReason, Event, KeyPair, Kind, Limits, Security, ServerKeys, Settings, Timer,
};

/// The messages of the peer follow on a valid handshake.
pub(crate) const HANDSHAKE_DONE: u8 = 1;
/// Of CURVE: what the peer says is sealed for us, with [`HANDSHAKE_DONE`].
pub(crate) const SEALED: u8 = 2;
/// The peer takes nothing of what we say.
pub(crate) const NOBODY_READS: u8 = 4;
/// We send as much as we may, all the time.
pub(crate) const WE_TALK: u8 = 8;
/// A second between two pieces.
pub(crate) const TIME_PASSES: u8 = 16;

/// Bytes before what the peer says.
pub(crate) const HEAD_BYTES: usize = 3;

const MESSAGE_BYTES_MAX: usize = 1000;
const PARTS_MAX: usize = 4;
const QUEUE_BYTES_MAX: usize = 4000;
/// The engine's own limit of a command.
const COMMAND_BYTES_MAX: usize = 8192;
/// A message whose last part is not complete (a buffer that grows may have twice what it holds), the messages that wait for the
/// peer, and the commands, which never wait.
const HELD_BYTES_MAX: usize =
    2 * (MESSAGE_BYTES_MAX + COMMAND_BYTES_MAX + 100) + QUEUE_BYTES_MAX + 3 * COMMAND_BYTES_MAX;

/// Which side of a conversation we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Role {
    pub(crate) kind: Kind,
    pub(crate) is_secured: bool,
}

impl Role {
    pub(crate) const ALL: [Self; 8] = [
        Self { kind: Kind::Router, is_secured: false },
        Self { kind: Kind::Xpub, is_secured: false },
        Self { kind: Kind::Dealer, is_secured: false },
        Self { kind: Kind::Sub, is_secured: false },
        Self { kind: Kind::Router, is_secured: true },
        Self { kind: Kind::Xpub, is_secured: true },
        Self { kind: Kind::Dealer, is_secured: true },
        Self { kind: Kind::Sub, is_secured: true },
    ];

    const fn is_server(self) -> bool {
        matches!(self.kind, Kind::Router | Kind::Xpub)
    }

    /// The socket at the other end.
    pub(crate) const fn opposite(self) -> Self {
        let kind = match self.kind {
            Kind::Router => Kind::Dealer,
            Kind::Xpub => Kind::Sub,
            Kind::Sub => Kind::Xpub,
            _ => Kind::Router,
        };
        Self { kind, is_secured: self.is_secured }
    }

    /// The seed of its random bytes.
    const fn seed(self) -> [u8; 32] {
        [if self.is_server() { 4 } else { 3 }; 32]
    }

    /// A connection at its beginning. The same role is always the same connection, keys and all.
    pub(crate) fn connect(self) -> Connection {
        let (server, client) = (KeyPair::from_bytes([1; 32]), KeyPair::from_bytes([2; 32]));
        let security = match (self.is_secured, self.is_server()) {
            (false, _) => Security::Null,
            (true, true) => {
                let authorised = [client.public()].into_iter().collect();
                Security::CurveServer(Arc::new(ServerKeys { pair: server, authorised, commanders: [].into() }))
            }
            (true, false) => Security::CurveClient(Arc::new(ClientKeys { server: server.public(), pair: client })),
        };
        let limits = Limits {
            message_bytes_max: MESSAGE_BYTES_MAX,
            long: None,
            parts_max: PARTS_MAX,
            queue_messages_max: 8,
            queue_bytes_max: QUEUE_BYTES_MAX,
            handshake_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(120),
            ping_interval: Some(Duration::from_secs(20)),
        };
        let begin = if self.is_server() { Connection::accepted } else { Connection::new };
        begin(START, Settings { kind: self.kind, limits, security }, self.seed())
    }
}

const START: Mono = Mono::from_nanos(0);

/// The result of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) events: Vec<Event>,
    pub(crate) cut: Option<DisconnectReason>,
}

/// Lives through one conversation.
///
/// # Panics
/// When something is not as it must be.
pub(crate) fn drive(input: &[u8]) -> Outcome {
    let Some((head, said)) = input.split_at_checked(HEAD_BYTES) else { return Outcome::default() };
    let (role, pieces, how) = (Role::ALL[usize::from(head[0]) % Role::ALL.len()], head[1], head[2]);
    let outcome = live(role, pieces, how, said);
    if how & (NOBODY_READS | WE_TALK | TIME_PASSES) == 0 && pieces != 0 {
        let whole = live(role, 0, how, said);
        // A peer that sends everything at once reads nothing in between.
        if ![&whole, &outcome].iter().any(|it| it.cut == Some(DisconnectReason::NotReading)) {
            assert_eq!(whole, outcome, "it matters how the bytes come");
        }
    }
    outcome
}

fn live(role: Role, pieces: u8, how: u8, said: &[u8]) -> Outcome {
    let mut ours = Ours { role, connection: role.connect(), now: START, how, outcome: Outcome::default() };
    let stream = stream(&mut ours, said);
    let mut sizes = StdRng::seed_from_u64(u64::from(pieces));
    let mut rest = &stream[..];
    while !rest.is_empty() && ours.outcome.cut.is_none() {
        let size = match pieces {
            0 => rest.len(),
            u8::MAX => sizes.random_range(1..=rest.len().min(300)),
            size => usize::from(size).min(rest.len()),
        };
        let (piece, later) = rest.split_at(size);
        ours.hear(piece);
        ours.act();
        rest = later;
    }
    ours.end();
    ours.outcome
}

/// The bytes on the wire: after the handshake, if that is to be a good one, and in boxes.
fn stream(ours: &mut Ours, said: &[u8]) -> Vec<u8> {
    if ours.how & HANDSHAKE_DONE == 0 {
        return said.to_vec();
    }
    ours.hear(opening(ours.role));
    if ours.role.is_secured && ours.how & SEALED != 0 { seal(ours.role, said) } else { said.to_vec() }
}

/// The bytes of the other end of this role up to the end of the handshake, which are the same each time.
pub(crate) fn opening(role: Role) -> &'static [u8] {
    static OPENINGS: [OnceLock<Vec<u8>>; Role::ALL.len()] = [const { OnceLock::new() }; Role::ALL.len()];
    let index = Role::ALL.iter().position(|it| *it == role).expect("one of them");
    OPENINGS[index].get_or_init(|| {
        let (mut ours, mut theirs) = (role.connect(), role.opposite().connect());
        let mut opening = Vec::new();
        while ours.peer().is_none() || theirs.peer().is_none() {
            opening.extend(carry(&mut theirs, &mut ours));
            carry(&mut ours, &mut theirs);
        }
        opening
    })
}

/// Lets one side hear what the other has to say.
pub(crate) fn carry(from: &mut Connection, to: &mut Connection) -> Vec<u8> {
    let bytes = take(from, START);
    let mut input = &bytes[..];
    while to.handle_input(START, &mut input).expect("a valid conversation").is_some() {}
    bytes
}

/// Puts frames into boxes that the connection of this role can open: the short-lived keys of both sides are the first that
/// their seeds give.
fn seal(role: Role, mut said: &[u8]) -> Vec<u8> {
    let transient = |role: Role| {
        let mut bytes = [0; 32];
        StdRng::from_seed(role.seed()).fill_bytes(&mut bytes);
        SecretKey::from_bytes(bytes)
    };
    let with = SalsaBox::new(&PublicKey::from(&transient(role)), &transient(role.opposite()));
    let purpose = if role.is_server() { b"CurveZMQMESSAGEC" } else { b"CurveZMQMESSAGES" };
    let mut out = Vec::new();
    // The handshake has used the first numbers.
    for number in 10_u64.. {
        let Some(([flags, high, low], rest)) = said.split_first_chunk() else { break };
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (body, rest) = rest.split_at(length);
        said = rest;
        let mut text = [&[*flags], body].concat();
        let nonce: [u8; 24] = [&purpose[..], &number.to_be_bytes()].concat().try_into().expect("16 and 8 bytes");
        let tag = with.encrypt_in_place_detached(&nonce.into(), b"", &mut text).expect("it is short");
        let sealed = [b"\x07MESSAGE", &number.to_be_bytes()[..], &tag, &text].concat();
        out.push(2);
        out.extend((sealed.len() as u64).to_be_bytes());
        out.extend(sealed);
    }
    out
}

fn take(connection: &mut Connection, now: Mono) -> Vec<u8> {
    let bytes = connection.output().to_vec();
    connection.handle_written(now, bytes.len());
    bytes
}

struct Ours {
    role: Role,
    connection: Connection,
    now: Mono,
    how: u8,
    outcome: Outcome,
}

impl Ours {
    fn hear(&mut self, mut input: &[u8]) {
        loop {
            let before = input.len();
            match self.connection.handle_input(self.now, &mut input) {
                Ok(Some(event)) => {
                    assert!(input.len() < before, "an event comes of nothing");
                    self.note(event);
                }
                Ok(None) => {
                    assert!(input.is_empty(), "input is left");
                    return;
                }
                Err(cut) => {
                    self.outcome.cut = Some(cut);
                    return;
                }
            }
        }
    }

    fn note(&mut self, event: Event) {
        let is_first = self.outcome.events.is_empty();
        match &event {
            Event::Opened(peer) => {
                assert!(is_first, "it opens again");
                assert_eq!(peer.key.is_some(), self.role.is_secured);
                assert_eq!(self.connection.peer(), Some(*peer));
            }
            Event::Message(parts) => {
                assert!(!is_first, "a message comes before the handshake is done");
                assert_ne!(self.role.kind, Kind::Xpub, "a publisher hears a message");
                assert!((1..=PARTS_MAX).contains(&parts.len()), "{} parts", parts.len());
                let bytes: usize = parts.iter().map(Vec::len).sum();
                assert!(bytes <= MESSAGE_BYTES_MAX, "a message of {bytes} bytes");
            }
            Event::TooLong(parts, too_long) => {
                assert!(!is_first, "a message comes before the handshake is done");
                assert_eq!(self.role.kind, Kind::Router, "it waits for no answer");
                assert!(parts.len() < PARTS_MAX && too_long.bytes > too_long.max as u64, "{too_long:?}");
            }
            Event::Subscribed(prefix) | Event::Cancelled(prefix) => {
                assert!(!is_first, "a subscription comes before the handshake is done");
                assert_eq!(self.role.kind, Kind::Xpub);
                assert!(prefix.len() <= COMMAND_BYTES_MAX);
            }
        }
        self.outcome.events.push(event);
    }

    /// The actions of our side between two pieces.
    fn act(&mut self) {
        self.check();
        if self.how & TIME_PASSES != 0 && self.outcome.cut.is_none() {
            self.now = self.now + Duration::from_secs(1);
            if let Err(cut) = self.connection.handle_timeout(self.now) {
                self.outcome.cut = Some(cut);
            }
        }
        if self.how & WE_TALK != 0 {
            let parts = [&b""[..], b"an answer of ours"];
            while self.role.kind != Kind::Sub && self.connection.send(self.now, &parts).is_ok() {}
            if self.role.kind == Kind::Sub && self.connection.output().is_empty() {
                self.connection.subscribe(self.now, b"prefix");
            }
        }
        if self.how & NOBODY_READS == 0 {
            take(&mut self.connection, self.now);
        }
        self.check();
    }

    fn check(&mut self) {
        let held = self.connection.held();
        assert!(held <= HELD_BYTES_MAX, "{held} bytes are held for a peer");
        let deadline = self.connection.poll_timeout();
        match (&self.outcome.cut, deadline) {
            (Some(cut), deadline) => {
                assert_eq!(deadline, None, "it waits for something after {cut:?}");
                assert_eq!(self.connection.peer(), None, "it is open after {cut:?}");
                assert!(self.connection.send(self.now, &[b"x"]).is_err(), "it takes a message after {cut:?}");
                let again = self.connection.handle_input(self.now, &mut &b"\xFF"[..]);
                assert_eq!(again, Err(DisconnectReason::Over), "it reads on after {cut:?}");
            }
            (None, Some((_, Timer::Handshake))) => assert_eq!(self.connection.peer(), None),
            (None, None) => assert!(self.connection.peer().is_some(), "a handshake without an end"),
            (None, Some(_)) => {}
        }
    }

    /// A peer that falls silent is disconnected in the end, and not before its time.
    fn end(&mut self) {
        self.check();
        for _ in 0..1000 {
            let Some((at, _)) = self.connection.poll_timeout() else { break };
            self.now = self.now.max(at);
            if let Err(cut) = self.connection.handle_timeout(self.now) {
                assert!(
                    matches!(
                        cut,
                        DisconnectReason::SlowHandshake | DisconnectReason::NotReading | DisconnectReason::Silent
                    ),
                    "{cut:?}"
                );
                // It is nothing that the peer said.
                let said = self.outcome.cut.replace(cut);
                self.check();
                self.outcome.cut = said;
                return;
            }
            take(&mut self.connection, self.now);
        }
        let is_patient = self.connection.peer().is_some_and(|peer| !peer.is_3_1);
        assert!(is_patient || self.outcome.cut.is_some(), "a silent peer is kept for ever");
    }
}
