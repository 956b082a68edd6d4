//! What the peers of a publisher have asked for.

use std::collections::BTreeMap;

/// Bytes of a prefix. It is the beginning of a message that we send; a longer one can only be there to cost memory.
const PREFIX_BYTES_MAX: usize = 256;

/// A peer that asks for more than is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it subscribes too often, or to a prefix that is too long")]
pub struct TooMany;

/// The prefixes of one peer. One that was asked for twice must be cancelled twice (RFC 29).
#[derive(Debug, Default)]
pub struct Subscriptions(BTreeMap<Vec<u8>, u32>);

impl Subscriptions {
    /// Adds one; it may have `max` different ones.
    ///
    /// # Errors
    /// When it has them already, or the prefix is longer than any message begins.
    pub fn add(&mut self, prefix: Vec<u8>, max: usize) -> Result<(), TooMany> {
        let is_new = !self.0.contains_key(&prefix);
        if prefix.len() > PREFIX_BYTES_MAX || (is_new && self.0.len() >= max) {
            return Err(TooMany);
        }
        let times = self.0.entry(prefix).or_default();
        *times = times.saturating_add(1);
        Ok(())
    }

    /// Takes one back.
    pub fn remove(&mut self, prefix: &[u8]) {
        if let Some(times) = self.0.get_mut(prefix) {
            *times -= 1;
            if *times == 0 {
                self.0.remove(prefix);
            }
        }
    }

    /// How many different ones there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a message is asked for.
    #[must_use]
    pub fn matches(&self, message: &[u8]) -> bool {
        self.0.keys().any(|prefix| message.starts_with(prefix))
    }

    /// Whether some message that begins like this may be asked for.
    #[must_use]
    pub fn may_match(&self, beginning: &[u8]) -> bool {
        self.0.keys().any(|prefix| prefix.starts_with(beginning) || beginning.starts_with(prefix))
    }
}
