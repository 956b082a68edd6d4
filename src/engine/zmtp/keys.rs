//! The keys of CURVE: pairs on Curve25519, written in Z85 (RFC 32).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crypto_box::SecretKey;

/// Letters of a key in Z85.
const Z85_LETTERS: usize = 40;

/// A public key. It names its owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
        bytes(text).map(Self)
    }

    pub(super) const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub(super) const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub(super) fn curve(&self) -> crypto_box::PublicKey {
        crypto_box::PublicKey::from_bytes(self.0)
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

/// A key pair. What is secret of it is never shown.
#[derive(Clone)]
pub struct KeyPair {
    pub(super) secret: SecretKey,
    pub(super) public: PublicKey,
}

impl KeyPair {
    /// Reads the 40 letters of the secret key; the public one follows from it.
    ///
    /// # Errors
    /// When they are not 40, or not all of Z85.
    pub fn parse(secret: &str) -> Result<Self, BadKey> {
        bytes(secret).map(Self::from_bytes)
    }

    /// The pair of 32 random bytes.
    #[must_use]
    pub fn from_bytes(secret: [u8; 32]) -> Self {
        let secret = SecretKey::from_bytes(secret);
        let public = PublicKey(secret.public_key().to_bytes());
        Self { secret, public }
    }

    /// What others may know.
    #[must_use]
    pub const fn public(&self) -> PublicKey {
        self.public
    }

    /// What nobody else may know, in Z85: for its file.
    #[must_use]
    pub fn secret_text(&self) -> String {
        z85::encode(self.secret.to_bytes())
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair").field("public", &self.public).finish_non_exhaustive()
    }
}

fn bytes(text: &str) -> Result<[u8; 32], BadKey> {
    let decoded = (text.len() == Z85_LETTERS).then(|| z85::decode(text).ok()).flatten().ok_or(BadKey)?;
    decoded.try_into().map_err(|_| BadKey)
}

/// How a connection is secured.
#[derive(Clone, Debug)]
pub enum Security {
    /// Not at all.
    Null,
    /// CURVE, as the side that knows whom it lets in.
    CurveServer(Arc<ServerKeys>),
    /// CURVE, as the side that knows whom it talks to.
    CurveClient(Arc<ClientKeys>),
}

/// What a server of CURVE has.
#[derive(Clone, Debug)]
pub struct ServerKeys {
    /// Its own.
    pub pair: KeyPair,
    /// Whom it lets in.
    pub authorised: BTreeSet<PublicKey>,
}

/// What a client of CURVE has.
#[derive(Clone, Debug)]
pub struct ClientKeys {
    /// Its own.
    pub pair: KeyPair,
    /// That of the server.
    pub server: PublicKey,
}

impl Security {
    pub(super) const fn mechanism(&self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::CurveServer(_) | Self::CurveClient(_) => "CURVE",
        }
    }

    pub(super) const fn is_server(&self) -> bool {
        matches!(self, Self::CurveServer(_))
    }
}
