//! The addresses that have shown a wrong secret, and the lines of the log about those that are refused.
//!
//! An address may try one secret, and then has to wait: what it shows meanwhile is looked at afterwards, one at a time. So a guess
//! costs its pause, over however many connections, while workers with the right secret lose a moment.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::types::{Mono, Neighbourhood, Origin};

/// Addresses that are remembered: more than a thousand networks within one pause are an attack that no pause slows down.
const ADDRESSES_MAX: usize = 1024;

/// Between two lines of the log: strangers must not fill a disk with them.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// Until when nothing is looked at that an address shows.
    pauses: BTreeMap<Neighbourhood, Mono>,
    /// When the next line may be written.
    next_line: Option<Mono>,
    suppressed: u64,
}

impl Refusals {
    /// Until when this address has to wait, if it has.
    pub(super) fn pause(&self, now: Mono, origin: Origin) -> Option<Mono> {
        self.pauses.get(&origin.neighbourhood()).copied().filter(|until| *until > now)
    }

    /// A wrong secret has come from this address.
    pub(super) fn note(&mut self, now: Mono, origin: Origin, pause: Duration) {
        if self.pauses.len() >= ADDRESSES_MAX {
            self.pauses.retain(|_, until| *until > now);
        }
        if self.pauses.len() >= ADDRESSES_MAX {
            self.pauses.pop_first();
        }
        self.pauses.insert(origin.neighbourhood(), now + pause);
    }

    /// Whether a line about a refusal may be written; if so, how many were left out since the last one.
    pub(super) fn take_line(&mut self, now: Mono) -> Option<u64> {
        if self.next_line.is_some_and(|next| now < next) {
            self.suppressed += 1;
            return None;
        }
        self.next_line = Some(now + LINE_INTERVAL);
        Some(std::mem::take(&mut self.suppressed))
    }

    /// How many were left out, if the next line is due and no refusal has asked for it.
    pub(super) fn take_suppressed(&mut self, now: Mono) -> Option<u64> {
        let is_due = self.suppressed > 0 && self.next_line.is_none_or(|next| now >= next);
        if is_due { self.take_line(now) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Mono {
        Mono::default() + Duration::from_millis(millis)
    }

    #[test]
    fn the_log_has_a_line_a_second_and_no_refusal_is_left_out_of_the_count() {
        let mut refusals = Refusals::default();
        let mut told = Vec::new();
        for millis in 0..2500 {
            told.extend(refusals.take_line(at(millis)));
        }
        assert_eq!(told, [0, 999, 999]);
        assert_eq!(refusals.take_suppressed(at(2999)), None);
        assert_eq!(refusals.take_suppressed(at(3000)), Some(499));
        assert_eq!(refusals.take_suppressed(at(9000)), None);
    }

    #[test]
    fn the_table_of_addresses_is_bounded() {
        let mut refusals = Refusals::default();
        for number in 0..2 * ADDRESSES_MAX {
            let address = std::net::SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 1));
            refusals.note(at(0), Origin::new(address), Duration::from_secs(1));
        }
        assert!(refusals.pauses.len() <= ADDRESSES_MAX);
        let last = Origin::new(std::net::SocketAddr::from(([10, 0, 7, 255], 9)));
        assert_eq!(refusals.pause(at(999), last), Some(at(1000)));
        assert_eq!(refusals.pause(at(1000), last), None);
        refusals.note(at(5000), last, Duration::ZERO);
        assert_eq!(refusals.pauses.len(), 1, "a pause that has ended is forgotten");
    }
}
