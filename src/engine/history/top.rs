//! The first rows in an order, by their places.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::Day;
use crate::protocol::requests::history::SortKey;
use crate::protocol::rounds::block::Row;

/// The place of a row in the history. Later rows have larger places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The day of its file.
    pub day: Day,
    /// The place of its block in the file, in bytes.
    pub block: u64,
    /// Its number in the block.
    pub row: u32,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Top {
    sort: SortKey,
    is_reversed: bool,
    len_max: usize,
    /// The last of the kept rows is on top.
    kept: BinaryHeap<Reverse<(u64, Place)>>,
    total: usize,
}

impl Top {
    /// Keeps so many rows.
    #[must_use]
    pub const fn new(sort: SortKey, is_reversed: bool, len_max: usize) -> Self {
        Self { sort, is_reversed, len_max, kept: BinaryHeap::new(), total: 0 }
    }

    /// Takes a row that matches.
    pub fn add(&mut self, row: &Row, place: Place) {
        self.total += 1;
        let value = self.value(row);
        let key = Reverse((if self.is_reversed { !value } else { value }, place));
        if self.kept.len() < self.len_max {
            self.kept.push(key);
        } else if let Some(mut last) = self.kept.peek_mut()
            && key < *last
        {
            *last = key;
        }
    }

    fn value(&self, row: &Row) -> u64 {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        match self.sort {
            SortKey::Ended => row.ended_at.micros(),
            // A run that does not exist is shorter than any other.
            SortKey::Ran => row.ran.map_or(0, |ran| micros(ran) + 1),
            SortKey::Waited => micros(row.waited),
            SortKey::Submitted => row.submitted_at().micros(),
        }
    }

    /// Number of rows that match.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.total
    }

    /// The places of the kept rows behind the first ones, in order.
    #[must_use]
    pub fn into_places(self, skipped: usize) -> Vec<Place> {
        self.kept.into_sorted_vec().into_iter().skip(skipped).map(|Reverse((_, place))| place).collect()
    }
}
