//! The greeting: the first 64 bytes of either side.
//!
//! A peer of another protocol is recognised at the first wrong byte: an HTTP request costs one byte, not a time-out.

use super::DisconnectReason;
use super::disconnect_reason::shown;
use super::keys::Security;

pub(super) const GREETING_BYTES: usize = 64;

/// The part that peers of all versions read first. It comes before the version number.
pub(super) const SIGNATURE_BYTES: usize = 10;

const SIGNATURE_END: usize = SIGNATURE_BYTES - 1;
const VERSION: usize = 10;
const MINOR: usize = 11;
const MECHANISM: std::ops::Range<usize> = 12..32;
const AS_SERVER: usize = 32;

/// The relevant content of the peer's greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    /// Whether it supports PING, SUBSCRIBE and CANCEL.
    pub(super) is_3_1: bool,
}

/// An incomplete greeting.
#[derive(Debug)]
pub(super) struct GreetingReader {
    bytes: [u8; GREETING_BYTES],
    have: usize,
}

/// A greeting.
pub(super) fn greeting(mechanism: &str, is_server: bool) -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[0] = 0xFF;
    bytes[SIGNATURE_END] = 0x7F;
    bytes[VERSION] = 3;
    bytes[MINOR] = 1;
    for (place, byte) in bytes[MECHANISM].iter_mut().zip(mechanism.bytes()) {
        *place = byte;
    }
    bytes[AS_SERVER] = u8::from(is_server);
    bytes
}

/// The greeting of a side with this security.
pub(super) fn own_greeting(security: &Security) -> [u8; GREETING_BYTES] {
    greeting(security.mechanism(), security.is_server())
}

impl GreetingReader {
    pub(super) const fn new() -> Self {
        Self { bytes: [0; GREETING_BYTES], have: 0 }
    }

    /// The bytes that have been read, for [`Self::resume`].
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.have]
    }

    /// Continues after these bytes, which were read and found valid; `None` if there are too many.
    pub(super) fn resume(read: &[u8]) -> Option<Self> {
        let mut reader = Self::new();
        reader.bytes.get_mut(..read.len())?.copy_from_slice(read);
        reader.have = read.len();
        Some(reader)
    }

    /// Reads the bytes of the greeting from the input; `None` while it is incomplete.
    pub(super) fn read(&mut self, input: &mut &[u8], ours: &'static str) -> Result<Option<Greeting>, DisconnectReason> {
        while self.have < GREETING_BYTES {
            let Some((byte, rest)) = input.split_first() else { return Ok(None) };
            *input = rest;
            self.bytes[self.have] = *byte;
            self.check(*byte)?;
            self.have += 1;
        }
        let theirs = self.bytes[MECHANISM].split(|byte| *byte == 0).next().unwrap_or_default();
        if theirs != ours.as_bytes() {
            return Err(DisconnectReason::Mechanism { theirs: shown(theirs), ours });
        }
        // The as-server byte is ignored: libzmq does not set it, and the first command says the same.
        Ok(Some(Greeting { is_3_1: self.bytes[VERSION] > 3 || self.bytes[MINOR] >= 1 }))
    }

    const fn check(&self, byte: u8) -> Result<(), DisconnectReason> {
        match self.have {
            0 if byte != 0xFF => Err(DisconnectReason::NotZmtp),
            // ZMTP 1 has a long length here, and its flags in place of 0x7F.
            SIGNATURE_END if byte & 1 == 0 => Err(DisconnectReason::OldVersion(1)),
            VERSION if byte < 3 => Err(DisconnectReason::OldVersion(if byte == 0 { 1 } else { 2 })),
            _ => Ok(()),
        }
    }
}
