//! The SHA-256 of a tool's archive, which identifies exactly one version of it.

use std::fmt;
use std::str::FromStr;

/// A digest. As text, 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolDigest([u8; 32]);

/// A text that is not a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 hexadecimal digits in lower case")]
pub struct InvalidToolDigest;

impl ToolDigest {
    /// Digits that identify a version for people.
    const SHORT: usize = 12;

    /// The digest with these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The first digits, for tables and sentences.
    #[must_use]
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(Self::SHORT);
        text
    }
}

impl fmt::Display for ToolDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every record of a task, and every answer with one, contains a digest. The general formatter would cost more
        // than the rest.
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [[0; 2]; 32];
        for (pair, byte) in text.iter_mut().zip(self.0) {
            *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        }
        f.write_str(str::from_utf8(text.as_flattened()).unwrap_or_default())
    }
}

impl fmt::Debug for ToolDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.short())
    }
}

impl FromStr for ToolDigest {
    type Err = InvalidToolDigest;

    fn from_str(text: &str) -> Result<Self, InvalidToolDigest> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != bytes.len() || !rest.is_empty() {
            return Err(InvalidToolDigest);
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high).zip(digit(*low)).map(|(high, low)| high * 16 + low).ok_or(InvalidToolDigest)?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_back_as_itself_and_other_texts_are_refused() {
        let digest = ToolDigest::new(std::array::from_fn(|at| at as u8 * 8));
        let text = digest.to_string();
        assert_eq!((text.len(), text.parse()), (64, Ok(digest)));
        assert!(text.starts_with(&digest.short()));
        for other in ["", &text[1..], &text.to_uppercase(), &format!("{text}0"), &text.replace('0', "g"), "../../etc"] {
            assert_eq!(other.parse::<ToolDigest>(), Err(InvalidToolDigest), "{other:?}");
        }
    }
}
