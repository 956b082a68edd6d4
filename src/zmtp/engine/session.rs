//! Traffic under CURVE: each frame, including commands, is a box with an inner frame.

use std::fmt;

use crypto_box::SalsaBox;
use crypto_box::aead::{AeadInPlace as _, Nonce};
use serde::{Deserialize, Serialize};

use super::disconnect_reason::DisconnectReason;
use super::frame::{COMMAND, Frame, MORE, write_header};
use super::keys::{KeyPair, PublicKey, between};

const MESSAGE: &[u8; 8] = b"\x07MESSAGE";
const TAG: std::ops::Range<usize> = 16..32;

/// Bytes that a box adds to a frame: the name, the number, the tag, the flags.
pub(super) const OVERHEAD_BYTES: usize = 33;

/// The flags inside a box; they differ from those of a frame.
const BOXED_MORE: u8 = 1;
const BOXED_COMMAND: u8 = 2;

/// The two directions of a secured connection.
pub(super) struct Session {
    with: SalsaBox,
    /// The key of the peer and our own, for this connection only. [`Self::with`] is made of them.
    keys: (PublicKey, KeyPair),
    ours: [u8; 16],
    theirs: [u8; 16],
    /// The last used numbers. They increase, so that no message can be replayed.
    sent: u64,
    heard: u64,
}

/// A [`Session`] as data. It contains secrets.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct SuspendedSession {
    secret: [u8; 32],
    key: [u8; 32],
    ours: [u8; 16],
    theirs: [u8; 16],
    sent: u64,
    heard: u64,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("sent", &self.sent).field("heard", &self.heard).finish_non_exhaustive()
    }
}

impl Session {
    pub(super) const fn new(
        with: SalsaBox,
        keys: (PublicKey, KeyPair),
        (ours, theirs): ([u8; 16], [u8; 16]),
        (sent, heard): (u64, u64),
    ) -> Self {
        Self { with, keys, ours, theirs, sent, heard }
    }

    /// The state, for [`Self::resume`].
    pub(super) fn suspend(&self) -> SuspendedSession {
        let (key, pair) = &self.keys;
        let (secret, key) = (pair.secret.to_bytes(), *key.as_bytes());
        SuspendedSession { secret, key, ours: self.ours, theirs: self.theirs, sent: self.sent, heard: self.heard }
    }

    /// Continues a session.
    pub(super) fn resume(suspended: &SuspendedSession) -> Self {
        let SuspendedSession { secret, key, ours, theirs, sent, heard } = *suspended;
        let keys = (PublicKey::from_bytes(key), KeyPair::from_bytes(secret));
        Self { with: between(&keys.0, &keys.1), keys, ours, theirs, sent, heard }
    }

    /// Writes a frame in a box.
    pub(super) fn write_frame(&mut self, out: &mut Vec<u8>, flags: u8, body: &[u8]) {
        self.sent += 1;
        let number = self.sent.to_be_bytes();
        write_header(out, 0, OVERHEAD_BYTES + body.len());
        let start = out.len();
        out.extend_from_slice(MESSAGE);
        out.extend_from_slice(&number);
        out.extend_from_slice(&[0; TAG.end - TAG.start]);
        let more = if flags & MORE == 0 { 0 } else { BOXED_MORE };
        let command = if flags & COMMAND == 0 { 0 } else { BOXED_COMMAND };
        out.push(more | command);
        out.extend_from_slice(body);
        let sealed = &mut out[start..];
        match self.with.encrypt_in_place_detached(&nonce(self.ours, number), b"", &mut sealed[TAG.end..]) {
            Ok(tag) => sealed[TAG].copy_from_slice(&tag),
            Err(_) => unreachable!("nothing is associated with the text, and it is not 256 GiB long"),
        }
    }

    /// Opens the box in a frame.
    pub(super) fn open(&mut self, frame: Frame) -> Result<Frame, DisconnectReason> {
        let mut body = frame.body;
        if body.len() < OVERHEAD_BYTES || !body.starts_with(MESSAGE) {
            return Err(DisconnectReason::Protocol("a frame is not in a box of CURVE"));
        }
        let (head, text) = body.split_at_mut(TAG.end);
        let (number, tag) = head[MESSAGE.len()..].split_at(8);
        let number: [u8; 8] = number.try_into().unwrap_or_default();
        if u64::from_be_bytes(number) <= self.heard {
            return Err(DisconnectReason::Protocol("a box of CURVE comes a second time"));
        }
        let tag: &[u8] = tag;
        let opened = self.with.decrypt_in_place_detached(&nonce(self.theirs, number), b"", text, tag.into());
        opened.map_err(|_| DisconnectReason::Keys("a box cannot be opened"))?;
        self.heard = u64::from_be_bytes(number);
        let flags = text[0];
        body.drain(..OVERHEAD_BYTES);
        Ok(Frame { is_command: flags & BOXED_COMMAND != 0, has_more: flags & BOXED_MORE != 0, body, too_long: None })
    }
}

/// A nonce made of a purpose and an increasing number.
pub(super) fn short_nonce(purpose: [u8; 16], number: [u8; 8]) -> [u8; 24] {
    let mut nonce = [0; 24];
    nonce[..16].copy_from_slice(&purpose);
    nonce[16..].copy_from_slice(&number);
    nonce
}

fn nonce(purpose: [u8; 16], number: [u8; 8]) -> Nonce<SalsaBox> {
    short_nonce(purpose, number).into()
}
