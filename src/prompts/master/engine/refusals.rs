//! Log lines about refused connections: bounded in rate, with a count of the suppressed ones.

use std::time::Duration;

use base::Mono;

/// Minimum time between two log lines: strangers must not fill a disk with them.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// When the next line may be written.
    next_line: Option<Mono>,
    suppressed: u64,
}

impl Refusals {
    /// The number of suppressed lines since the last one, if a line about a refusal may be written.
    pub(super) fn take_line(&mut self, now: Mono) -> Option<u64> {
        if self.next_line.is_some_and(|next| now < next) {
            self.suppressed += 1;
            return None;
        }
        self.next_line = Some(now + LINE_INTERVAL);
        Some(std::mem::take(&mut self.suppressed))
    }

    /// The number of suppressed lines, if a line is due that no refusal has caused.
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
}
