//! The CURVE keys: pairs on Curve25519, written in Z85 (RFC 32).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crypto_box::{SalsaBox, SecretKey};

use base::z85_key;
pub use base::{BadKey, PublicKey};

/// A key pair. Its secret is never shown.
#[derive(Clone)]
pub struct KeyPair {
    pub(super) secret: SecretKey,
    pub(super) public: PublicKey,
}

impl KeyPair {
    /// Reads the 40 characters of the secret key and derives the public one.
    ///
    /// # Errors
    /// When they are not 40 characters of Z85.
    pub fn parse(secret: &str) -> Result<Self, BadKey> {
        z85_key(secret).map(Self::from_bytes)
    }

    /// The pair for 32 random bytes.
    #[must_use]
    pub fn from_bytes(secret: [u8; 32]) -> Self {
        let secret = SecretKey::from_bytes(secret);
        let public = PublicKey::from_bytes(secret.public_key().to_bytes());
        Self { secret, public }
    }

    /// The public key.
    #[must_use]
    pub const fn public(&self) -> PublicKey {
        self.public
    }

    /// The secret key in Z85, for its file.
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

/// The box between a peer and us.
pub(super) fn between(theirs: &PublicKey, ours: &KeyPair) -> SalsaBox {
    SalsaBox::new(&crypto_box::PublicKey::from_bytes(*theirs.as_bytes()), &ours.secret)
}

/// The security of a connection.
#[derive(Clone, Debug)]
pub enum Security {
    /// None.
    Null,
    /// CURVE, as the side that authorises clients.
    CurveServer(Arc<ServerKeys>),
    /// CURVE, as the side that knows the server.
    CurveClient(Arc<ClientKeys>),
}

/// The keys of a CURVE server.
#[derive(Clone, Debug)]
pub struct ServerKeys {
    /// Its own pair.
    pub pair: KeyPair,
    /// The authorised clients.
    pub authorised: BTreeSet<PublicKey>,
    /// Those of them whose holders may send commands.
    pub commanders: BTreeSet<PublicKey>,
}

/// The keys of a CURVE client.
#[derive(Clone, Debug)]
pub struct ClientKeys {
    /// Its own pair.
    pub pair: KeyPair,
    /// The public key of the server.
    pub server: PublicKey,
}

impl Security {
    pub(super) const fn mechanism(&self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::CurveServer(_) | Self::CurveClient(_) => "CURVE",
        }
    }

    pub(super) const fn is_curve(&self) -> bool {
        !matches!(self, Self::Null)
    }

    pub(super) const fn is_server(&self) -> bool {
        matches!(self, Self::CurveServer(_))
    }
}
