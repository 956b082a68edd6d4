//! The subscriptions of a publisher's peers.

use std::collections::BTreeMap;
use std::ops::Bound;

use serde::{Deserialize, Serialize};

use super::Event;

/// Longest prefix. No message needs a longer one to be selected, so a longer prefix would only cost memory.
pub const PREFIX_BYTES_MAX: usize = 256;

/// A peer that exceeds its quota of subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it subscribes too often, or to a prefix that is too long")]
pub struct TooMany;

/// The prefixes of one peer. A prefix that was subscribed twice must be cancelled twice (RFC 29).
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(from = "Vec<(Vec<u8>, u32)>", into = "Vec<(Vec<u8>, u32)>")]
pub struct Subscriptions(BTreeMap<Vec<u8>, u32>);

impl From<Vec<(Vec<u8>, u32)>> for Subscriptions {
    fn from(prefixes: Vec<(Vec<u8>, u32)>) -> Self {
        Self(prefixes.into_iter().collect())
    }
}

impl From<Subscriptions> for Vec<(Vec<u8>, u32)> {
    fn from(subscriptions: Subscriptions) -> Self {
        subscriptions.0.into_iter().collect()
    }
}

impl Subscriptions {
    /// Adds a prefix; a peer may have `max` different ones.
    ///
    /// # Errors
    /// When that number is reached, or the prefix is too long.
    pub fn add(&mut self, prefix: Vec<u8>, max: usize) -> Result<(), TooMany> {
        let is_new = !self.0.contains_key(&prefix);
        if prefix.len() > PREFIX_BYTES_MAX || (is_new && self.0.len() >= max) {
            return Err(TooMany);
        }
        let times = self.0.entry(prefix).or_default();
        *times = times.saturating_add(1);
        Ok(())
    }

    /// Removes a prefix.
    pub fn remove(&mut self, prefix: &[u8]) {
        if let Some(times) = self.0.get_mut(prefix) {
            *times -= 1;
            if *times == 0 {
                self.0.remove(prefix);
            }
        }
    }

    /// Number of different prefixes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no prefixes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a message matches. This takes at most as many look-ups as a prefix has bytes, however many prefixes
    /// there are.
    #[must_use]
    pub fn matches(&self, message: &[u8]) -> bool {
        let mut head = &message[..message.len().min(PREFIX_BYTES_MAX)];
        loop {
            let at_most = (Bound::Unbounded, Bound::Included(head));
            let Some((prefix, _)) = self.0.range::<[u8], _>(at_most).next_back() else { return false };
            if head.starts_with(prefix) {
                return true;
            }
            // A prefix of `head` sorts before this one, and all prefixes between them share its beginning.
            let shared = prefix.iter().zip(head).take_while(|(ours, theirs)| ours == theirs).count();
            head = &head[..shared];
        }
    }

    /// Whether a message with this beginning may match. This takes as long as [`Self::matches`].
    #[must_use]
    pub fn may_match(&self, beginning: &[u8]) -> bool {
        let longer = self.0.range::<[u8], _>((Bound::Included(beginning), Bound::Unbounded)).next();
        longer.is_some_and(|(prefix, _)| prefix.starts_with(beginning)) || self.matches(beginning)
    }
}

/// Subscriptions in ZMTP 3.0: a message whose first byte is 1 or 0. A publisher ignores any other message.
pub(super) fn subscription(message: &[Vec<u8>]) -> Option<Event> {
    match message.first()?.split_first()? {
        (1, prefix) => Some(Event::Subscribed(prefix.to_vec())),
        (0, prefix) => Some(Event::Cancelled(prefix.to_vec())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against the definition, which looks at every prefix. Two letters only, so that many prefixes share a beginning.
        #[test]
        fn prefixes_are_found_as_if_each_was_looked_at(
            prefixes in proptest::collection::vec("[ab]{0,6}", 0..12),
            message in "[ab]{0,8}",
        ) {
            let mut asked = Subscriptions::default();
            for prefix in &prefixes {
                asked.add(prefix.clone().into_bytes(), 100).unwrap();
            }
            let begins = |prefix: &String| message.starts_with(prefix.as_str());
            prop_assert_eq!(asked.matches(message.as_bytes()), prefixes.iter().any(begins));
            let touches = |prefix: &String| begins(prefix) || prefix.starts_with(&message);
            prop_assert_eq!(asked.may_match(message.as_bytes()), prefixes.iter().any(touches));
        }
    }

    #[test]
    fn a_message_longer_than_any_prefix_is_found_by_its_beginning() {
        let mut asked = Subscriptions::default();
        asked.add(vec![b'x'; PREFIX_BYTES_MAX], 1).unwrap();
        assert!(asked.matches(&[b'x'; 10_000]) && !asked.matches(&[b'x'; PREFIX_BYTES_MAX - 1]));
        assert!(asked.may_match(b"x") && !asked.may_match(b"y"));
    }
}
