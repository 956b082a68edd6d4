//! The mechanism CURVE (RFC 25 and 26): it proves the identity of the peer and seals boxes that only the two sides can
//! open.
//!
//! ```text
//! client                                   server
//!   | HELLO: C', a box that only S opens --> |
//!   | <-- WELCOME: S', a cookie ------------ |
//!   | INITIATE: the cookie, C, the vouch --> |   is C authorised?
//!   | <-- READY ---------------------------- |
//!   | <=== MESSAGE: C' and S' only ========> |
//! ```
//!
//! C and S are the long-term keys, C' and S' the keys of this connection. The cookie is meant for servers that forget a
//! client between its two commands. This server does not forget it, so its cookie is just random bytes that must come
//! back.

use std::sync::Arc;

use crypto_box::SalsaBox;
use crypto_box::aead::{AeadInPlace as _, Nonce};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

use super::command::{self, ERROR, READY};
use super::disconnect_reason::DisconnectReason;
use super::keys::{ClientKeys, KeyPair, PublicKey, ServerKeys, between};
use super::kind::Kind;
use super::session::{Session, short_nonce};

const HELLO: &[u8] = b"HELLO";
const WELCOME: &[u8] = b"WELCOME";
const INITIATE: &[u8] = b"INITIATE";

const TAG_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
const COOKIE_BYTES: usize = 96;
const VOUCH_BYTES: usize = 16 + TAG_BYTES + 2 * KEY_BYTES;
/// Version 1.0, and padding so that a WELCOME is never longer than the HELLO that asked for it.
const HELLO_HEAD: [u8; 74] = {
    let mut head = [0; 74];
    head[0] = 1;
    head
};
/// The content of the box in a HELLO.
const PROOF: [u8; 64] = [0; 64];
/// The reason in an ERROR for a key that is not authorised, as in libzmq.
pub(crate) const UNAUTHORISED: &str = "400";

/// The result of a handshake.
pub(super) struct Secured {
    pub(super) kind: Kind,
    pub(super) session: Session,
    pub(super) key: PublicKey,
}

/// Opens a box with a nonce.
fn open(with: &SalsaBox, nonce: [u8; 24], sealed: &[u8]) -> Result<Vec<u8>, DisconnectReason> {
    let wrong = DisconnectReason::Keys("a box cannot be opened");
    let (tag, text) = sealed.split_at_checked(TAG_BYTES).ok_or_else(|| wrong.clone())?;
    let mut text = text.to_vec();
    let opened = with.decrypt_in_place_detached(&Nonce::<SalsaBox>::from(nonce), b"", &mut text, tag.into());
    opened.map(|()| text).map_err(|_| wrong)
}

/// Seals a box.
fn seal(with: &SalsaBox, nonce: [u8; 24], text: &[u8]) -> Vec<u8> {
    let mut sealed = [&[0; TAG_BYTES], text].concat();
    match with.encrypt_in_place_detached(&Nonce::<SalsaBox>::from(nonce), b"", &mut sealed[TAG_BYTES..]) {
        Ok(tag) => sealed[..TAG_BYTES].copy_from_slice(&tag),
        Err(_) => unreachable!("nothing is associated with the text, and it is not 256 GiB long"),
    }
    sealed
}

/// A nonce made of a purpose and random bytes.
fn long_nonce(purpose: [u8; 8], random: [u8; 16]) -> [u8; 24] {
    let mut nonce = [0; 24];
    nonce[..8].copy_from_slice(&purpose);
    nonce[8..].copy_from_slice(&random);
    nonce
}

/// Takes a field of fixed length from a command.
fn take<const COUNT: usize>(data: &mut &[u8]) -> Result<[u8; COUNT], DisconnectReason> {
    let (part, rest) = data.split_first_chunk().ok_or(DisconnectReason::Protocol("a command of CURVE is cut short"))?;
    *data = rest;
    Ok(*part)
}

/// Reads an ERROR, or refuses an unexpected command.
fn unexpected(name: &[u8], data: &[u8]) -> DisconnectReason {
    if name == ERROR {
        DisconnectReason::Refused(command::error_reason(data))
    } else {
        DisconnectReason::Protocol("a command of CURVE comes at the wrong time")
    }
}

fn bytes<const COUNT: usize>(random: &mut StdRng) -> [u8; COUNT] {
    let mut bytes = [0; COUNT];
    random.fill_bytes(&mut bytes);
    bytes
}

/// The server's side.
#[derive(Debug)]
pub(super) struct CurveServer {
    keys: Arc<ServerKeys>,
    random: StdRng,
    /// Set after the HELLO.
    greeted: Option<Greeted>,
}

#[derive(Debug)]
struct Greeted {
    client: PublicKey,
    transient: KeyPair,
    cookie: [u8; COOKIE_BYTES],
}

/// The state of a server after the HELLO of its client, as data. It contains secrets.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct SuspendedHello {
    client: [u8; 32],
    secret: [u8; 32],
    cookie: Vec<u8>,
}

impl CurveServer {
    pub(super) fn new(keys: Arc<ServerKeys>, seed: [u8; 32]) -> Self {
        Self { keys, random: StdRng::from_seed(seed), greeted: None }
    }

    /// The state, for [`Self::resume`]; `None` before the HELLO.
    pub(super) fn suspend(&self) -> Option<SuspendedHello> {
        let Greeted { client, transient, cookie } = self.greeted.as_ref()?;
        let (client, secret) = (*client.as_bytes(), transient.secret.to_bytes());
        Some(SuspendedHello { client, secret, cookie: cookie.to_vec() })
    }

    /// Continues in this state. A cookie of another length cannot be the client's, so the handshake starts anew and fails.
    pub(super) fn resume(&mut self, suspended: Option<SuspendedHello>) {
        self.greeted = suspended.and_then(|hello| {
            let cookie = hello.cookie.try_into().ok()?;
            let (client, transient) = (PublicKey::from_bytes(hello.client), KeyPair::from_bytes(hello.secret));
            Some(Greeted { client, transient, cookie })
        });
    }

    pub(super) fn handle(
        &mut self,
        ours: Kind,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Secured>, DisconnectReason> {
        match (command::split(body)?, self.greeted.take()) {
            ((HELLO, data), None) => self.hello(data, out).map(|()| None),
            ((INITIATE, data), Some(greeted)) => self.initiate(ours, &greeted, data, out).map(Some),
            ((name, data), _) => Err(unexpected(name, data)),
        }
    }

    fn hello(&mut self, mut data: &[u8], out: &mut Vec<u8>) -> Result<(), DisconnectReason> {
        let head = take::<{ HELLO_HEAD.len() }>(&mut data)?;
        let client = PublicKey::from_bytes(take(&mut data)?);
        let number = take::<8>(&mut data)?;
        if head[..2] != HELLO_HEAD[..2] {
            return Err(DisconnectReason::Protocol("it speaks another version of CURVE"));
        }
        if head != HELLO_HEAD || data.len() != TAG_BYTES + PROOF.len() {
            return Err(DisconnectReason::Protocol("its HELLO is malformed"));
        }
        let with = between(&client, &self.keys.pair);
        if open(&with, short_nonce(*b"CurveZMQHELLO---", number), data)? != PROOF {
            return Err(DisconnectReason::Protocol("its HELLO is malformed"));
        }
        let transient = KeyPair::from_bytes(bytes(&mut self.random));
        let cookie = bytes(&mut self.random);
        let random = bytes(&mut self.random);
        let welcome = [&transient.public.as_bytes()[..], &cookie].concat();
        command::write(out, WELCOME, &[&random, &seal(&with, long_nonce(*b"WELCOME-", random), &welcome)]);
        self.greeted = Some(Greeted { client, transient, cookie });
        Ok(())
    }

    fn initiate(
        &self,
        ours: Kind,
        Greeted { client, transient, cookie }: &Greeted,
        mut data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Secured, DisconnectReason> {
        if take::<COOKIE_BYTES>(&mut data)? != *cookie {
            return Err(DisconnectReason::Keys("the cookie is not the one that it was given"));
        }
        let number = take::<8>(&mut data)?;
        let with = between(client, transient);
        let text = open(&with, short_nonce(*b"CurveZMQINITIATE", number), data)?;
        let mut text = text.as_slice();
        let key = PublicKey::from_bytes(take(&mut text)?);
        let mut vouch = &take::<VOUCH_BYTES>(&mut text)?[..];
        let nonce = long_nonce(*b"VOUCH---", take(&mut vouch)?);
        let vouched = open(&between(&key, transient), nonce, vouch)?;
        if vouched != [*client.as_bytes(), *self.keys.pair.public.as_bytes()].concat() {
            return Err(DisconnectReason::Keys("the vouch is for another connection"));
        }
        if !self.keys.authorised.contains(&key) {
            command::write_error(out, UNAUTHORISED);
            return Err(DisconnectReason::Unauthorised(key.to_string()));
        }
        let kind = command::peer_kind(ours, text)?;
        let ready = seal(&with, short_nonce(*b"CurveZMQREADY---", 1_u64.to_be_bytes()), &command::properties(ours));
        command::write(out, READY, &[&1_u64.to_be_bytes(), &ready]);
        let session = Session::new(
            with,
            (*client, transient.clone()),
            (*b"CurveZMQMESSAGES", *b"CurveZMQMESSAGEC"),
            (1, u64::from_be_bytes(number)),
        );
        Ok(Secured { kind, session, key })
    }
}

/// The client's side.
#[derive(Debug)]
pub(super) struct CurveClient {
    keys: Arc<ClientKeys>,
    random: StdRng,
    transient: KeyPair,
    /// S', set after the WELCOME.
    welcomed: Option<PublicKey>,
}

impl CurveClient {
    pub(super) fn new(keys: Arc<ClientKeys>, seed: [u8; 32]) -> Self {
        let mut random = StdRng::from_seed(seed);
        let transient = KeyPair::from_bytes(bytes(&mut random));
        Self { keys, random, transient, welcomed: None }
    }

    pub(super) fn begin(&self, out: &mut Vec<u8>) {
        let with = between(&self.keys.server, &self.transient);
        let number = 1_u64.to_be_bytes();
        let proof = seal(&with, short_nonce(*b"CurveZMQHELLO---", number), &PROOF);
        command::write(out, HELLO, &[&HELLO_HEAD, self.transient.public.as_bytes(), &number, &proof]);
    }

    pub(super) fn handle(
        &mut self,
        ours: Kind,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Secured>, DisconnectReason> {
        match (command::split(body)?, self.welcomed) {
            ((WELCOME, data), None) => self.welcome(ours, data, out).map(|()| None),
            ((READY, data), Some(server)) => self.ready(ours, server, data).map(Some),
            ((name, data), _) => Err(unexpected(name, data)),
        }
    }

    pub(super) const fn is_unanswered(&self) -> bool {
        self.welcomed.is_none()
    }

    fn welcome(&mut self, ours: Kind, mut data: &[u8], out: &mut Vec<u8>) -> Result<(), DisconnectReason> {
        let with = between(&self.keys.server, &self.transient);
        let text = open(&with, long_nonce(*b"WELCOME-", take(&mut data)?), data)?;
        let mut text = text.as_slice();
        let server = PublicKey::from_bytes(take(&mut text)?);
        let cookie = take::<COOKIE_BYTES>(&mut text)?;
        let random = bytes(&mut self.random);
        let vouched = [*self.transient.public.as_bytes(), *self.keys.server.as_bytes()].concat();
        let with = between(&server, &self.keys.pair);
        let vouch = seal(&with, long_nonce(*b"VOUCH---", random), &vouched);
        let text = [&self.keys.pair.public.as_bytes()[..], &random, &vouch, &command::properties(ours)].concat();
        let number = 2_u64.to_be_bytes();
        let with = between(&server, &self.transient);
        let sealed = seal(&with, short_nonce(*b"CurveZMQINITIATE", number), &text);
        command::write(out, INITIATE, &[&cookie, &number, &sealed]);
        self.welcomed = Some(server);
        Ok(())
    }

    fn ready(&self, ours: Kind, server: PublicKey, mut data: &[u8]) -> Result<Secured, DisconnectReason> {
        let number = take::<8>(&mut data)?;
        let with = between(&server, &self.transient);
        let properties = open(&with, short_nonce(*b"CurveZMQREADY---", number), data)?;
        let kind = command::peer_kind(ours, &properties)?;
        let session = Session::new(
            with,
            (server, self.transient.clone()),
            (*b"CurveZMQMESSAGEC", *b"CurveZMQMESSAGES"),
            (2, u64::from_be_bytes(number)),
        );
        Ok(Secured { kind, session, key: self.keys.server })
    }
}
