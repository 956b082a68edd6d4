//! The memory that all connections together make us hold: incomplete messages, and answers that are not read.
//!
//! Each connection has its own limits, but a thousand connections at their limits are still too much. Beyond the common
//! limit, the connection that has stalled the longest is closed: the one that has neither completed a message nor taken
//! a byte for the longest time. It is not the connection that holds the most, because that may be an honest client
//! whose large message is about to be complete. Leaving connections unread instead would let incomplete messages keep
//! all others out.

use std::collections::BTreeMap;

/// The total, and the stalled connections in the order in which they stalled.
#[derive(Debug)]
pub struct BufferBudget<K> {
    bytes: usize,
    bytes_max: usize,
    standing: BTreeMap<u64, K>,
    next: u64,
}

/// The share of one connection.
#[derive(Debug, Default)]
pub struct Share {
    bytes: usize,
    /// Its position in the order.
    since: Option<u64>,
}

impl<K: Copy> BufferBudget<K> {
    /// For an endpoint without connections.
    #[must_use]
    pub const fn new(bytes_max: usize) -> Self {
        Self { bytes: 0, bytes_max, standing: BTreeMap::new(), next: 0 }
    }

    /// Whether a connection must be closed, unless writing frees memory.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.bytes > self.bytes_max
    }

    /// The connection to close when the total is above the limit.
    #[must_use]
    pub fn longest_still(&self) -> Option<K> {
        self.standing.first_key_value().filter(|_| self.is_over()).map(|(_, id)| *id)
    }

    /// A connection has progressed, so it is no longer stalled.
    pub fn moved(&mut self, share: &mut Share) {
        if let Some(since) = share.since.take() {
            self.standing.remove(&since);
        }
    }

    /// Updates the bytes that a connection makes us hold, and whether it is stalled.
    pub fn count(&mut self, id: K, share: &mut Share, bytes: usize, is_still: bool) {
        self.bytes = self.bytes - share.bytes + bytes;
        share.bytes = bytes;
        if !is_still {
            self.moved(share);
        } else if share.since.is_none() {
            share.since = Some(self.next);
            self.standing.insert(self.next, id);
            self.next += 1;
        }
    }

    /// A connection is gone.
    pub fn forget(&mut self, share: &mut Share) {
        self.moved(share);
        self.bytes -= std::mem::take(&mut share.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_has_stood_still_the_longest_is_cut() {
        let mut budget = BufferBudget::new(100);
        let [mut a, mut b, mut c] = [Share::default(), Share::default(), Share::default()];
        budget.count('a', &mut a, 30, true);
        budget.count('b', &mut b, 30, true);
        budget.count('c', &mut c, 40, false);
        assert_eq!(budget.longest_still(), None, "there is room");
        budget.count('c', &mut c, 50, false);
        assert_eq!(budget.longest_still(), Some('a'));
        budget.moved(&mut a);
        budget.count('a', &mut a, 31, true);
        assert_eq!(budget.longest_still(), Some('b'), "the first one has moved");
        budget.forget(&mut b);
        assert!(!budget.is_over());
        budget.count('c', &mut c, 500, false);
        budget.forget(&mut a);
        assert_eq!(budget.longest_still(), None, "bytes about to be written are not counted as stalled");
    }
}
