//! A CURVE public key and its text form, Z85 (RFC 32). Using it is `zmtp::engine`'s concern.

use std::fmt;

/// Characters of a key in Z85.
const Z85_LETTERS: usize = 40;

/// A public key. It identifies its owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

/// A text that is not a usable key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// Not the text of any key.
    #[error("a CURVE key is 40 characters of Z85")]
    NotZ85,
    /// A point of low order: a box sealed for it can be opened without its secret key.
    #[error("this public key has a publicly known secret, such as 40 zeros; make a pair with `llts keys new`")]
    LowOrder,
}

/// The points of low order on Curve25519, in every encoding. The last bit is ignored.
const LOW_ORDER: [[u8; 32]; 7] = {
    let mut below_p = [0xFF; 32];
    (below_p[0], below_p[31]) = (0xEC, 0x7F);
    let (mut p, mut above_p) = (below_p, below_p);
    (p[0], above_p[0]) = (0xED, 0xEE);
    let mut one = [0; 32];
    one[0] = 1;
    let of_order_8 = [
        0xE0, 0xEB, 0x7A, 0x7C, 0x3B, 0x41, 0xB8, 0xAE, 0x16, 0x56, 0xE3, 0xFA, 0xF1, 0x9F, 0xC4, 0x6A, 0xDA, 0x09,
        0x8D, 0xEB, 0x9C, 0x32, 0xB1, 0xFD, 0x86, 0x62, 0x05, 0x16, 0x5F, 0x49, 0xB8, 0x00,
    ];
    let also_of_order_8 = [
        0x5F, 0x9C, 0x95, 0xBC, 0xA3, 0x50, 0x8C, 0x24, 0xB1, 0xD0, 0xB1, 0x55, 0x9C, 0x83, 0xEF, 0x5B, 0x04, 0x44,
        0x5C, 0xC4, 0x58, 0x1C, 0x8E, 0x86, 0xD8, 0x22, 0x4E, 0xDD, 0xD0, 0x9F, 0x11, 0x57,
    ];
    [[0; 32], one, of_order_8, also_of_order_8, below_p, p, above_p]
};

impl PublicKey {
    /// Reads the 40 characters.
    ///
    /// # Errors
    /// When they are not 40 characters of Z85, or when the key has a publicly known secret.
    pub fn parse(text: &str) -> Result<Self, BadKey> {
        let key = Self(z85_key(text)?);
        if key.is_of_low_order() { Err(BadKey::LowOrder) } else { Ok(key) }
    }

    fn is_of_low_order(&self) -> bool {
        let mut bytes = self.0;
        bytes[31] &= 0x7F;
        LOW_ORDER.contains(&bytes)
    }

    /// The key with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
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

/// The 32 bytes of a public or secret key.
pub fn z85_key(text: &str) -> Result<[u8; 32], BadKey> {
    let decoded = (text.len() == Z85_LETTERS).then(|| z85::decode(text).ok()).flatten().ok_or(BadKey::NotZ85)?;
    decoded.try_into().map_err(|_| BadKey::NotZ85)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why these keys are weak: the box between any secret and such a key is the same.
    #[test]
    fn keys_without_a_secret_are_refused() {
        let mut weak: Vec<[u8; 32]> = LOW_ORDER.to_vec();
        weak.extend(LOW_ORDER.map(|mut bytes| {
            bytes[31] |= 0x80;
            bytes
        }));
        for bytes in weak {
            let sealed = [3, 4].map(|seed| {
                use crypto_box::aead::{AeadInPlace as _, Nonce};
                let public = crypto_box::PublicKey::from_bytes(bytes);
                let between = crypto_box::SalsaBox::new(&public, &crypto_box::SecretKey::from_bytes([seed; 32]));
                let (nonce, mut text) = (Nonce::<crypto_box::SalsaBox>::from([0; 24]), *b"text");
                between.encrypt_in_place_detached(&nonce, b"", &mut text).unwrap();
                text
            });
            assert_eq!(sealed[0], sealed[1], "{bytes:?} is of low order");
            assert_eq!(PublicKey::parse(&z85::encode(bytes)), Err(BadKey::LowOrder), "{bytes:?}");
        }
        let mut good = [0; 32];
        good[0] = 9;
        assert!(PublicKey::parse(&z85::encode(good)).is_ok());
    }
}
