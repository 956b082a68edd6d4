//! A digest of the content of a file, so that two contents can be compared without storing either.

use std::hash::{BuildHasher as _, DefaultHasher, Hasher as _, RandomState};
use std::sync::LazyLock;

/// A digest of the content of a file, for this process only. It is keyed with a number that no other process knows, so that a
/// tool cannot search for another content with the same seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tools) struct Seal(u64);

/// Computes a [`Seal`]; the division of the content into pieces does not matter.
pub(in crate::tools) struct Sealer(DefaultHasher);

impl Sealer {
    pub(in crate::tools) fn new() -> Self {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(KEY.build_hasher())
    }

    pub(in crate::tools) fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    pub(in crate::tools) fn seal(&self) -> Seal {
        Seal(self.0.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_stands_for_the_content_however_it_is_cut() {
        let seal = |pieces: &[&[u8]]| {
            let mut sealer = Sealer::new();
            pieces.iter().for_each(|piece| sealer.add(piece));
            sealer.seal()
        };
        let whole = seal(&[b"some bytes of a file"]);
        assert_eq!(seal(&[b"some bytes", b"", b" of a f", b"ile"]), whole);
        assert_ne!(seal(&[b"some bytes of a fill"]), whole);
        assert_ne!(seal(&[b"some bytes of a file\0"]), whole);
    }
}
