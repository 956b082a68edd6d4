//! A public key of CURVE as text: Z85 (RFC 32). What is done with it is [`crate::engine::zmtp`]'s concern.

use std::fmt;

/// Letters of a key in Z85.
const Z85_LETTERS: usize = 40;

/// A public key. It names its owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

/// A text that is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a CURVE key is 40 letters of Z85")]
pub struct BadKey;

impl PublicKey {
    /// Reads the 40 letters.
    ///
    /// # Errors
    /// When they are not 40, or not all of Z85.
    pub fn parse(text: &str) -> Result<Self, BadKey> {
        z85_key(text).map(Self)
    }

    pub(crate) const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&z85::encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The 32 bytes of a key of either kind.
pub(crate) fn z85_key(text: &str) -> Result<[u8; 32], BadKey> {
    let decoded = (text.len() == Z85_LETTERS).then(|| z85::decode(text).ok()).flatten().ok_or(BadKey)?;
    decoded.try_into().map_err(|_| BadKey)
}
