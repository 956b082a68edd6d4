//! The difference between two wall clocks.

use std::fmt;
use std::time::Duration;

use super::Wall;

/// A smaller difference is not worth reporting.
const TOLD_FROM: Duration = Duration::from_secs(1);

/// How far one wall clock is ahead of that of the controller, in microseconds; negative if it is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skew(pub i64);

impl Skew {
    /// The difference between two clocks that were read at the same moment.
    #[must_use]
    pub fn between(clock: Wall, controller: Wall) -> Self {
        let micros = |wall: Wall| i64::try_from(wall.micros()).unwrap_or(i64::MAX);
        Self(micros(clock).saturating_sub(micros(controller)))
    }

    /// The difference in seconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a skew is shown to a tenth of a second")]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The difference of this many seconds; `None` for more than 285 years.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the range check keeps the value inside i64")]
    pub fn of_seconds(seconds: f64) -> Option<Self> {
        let micros = seconds * 1e6;
        (-9.007_199_254_740_992e15..9.007_199_254_740_992e15).contains(&micros).then(|| Self(micros.round() as i64))
    }

    /// Whether it is less than half a second, even if the measurement is off by `uncertainty`.
    #[must_use]
    pub fn is_below(self, uncertainty: Duration) -> bool {
        Duration::from_micros(self.0.unsigned_abs()).saturating_add(uncertainty) < TOLD_FROM / 2
    }

    /// Whether it exceeds a second, even if the measurement is off by `uncertainty`.
    #[must_use]
    pub fn is_above(self, uncertainty: Duration) -> bool {
        Duration::from_micros(self.0.unsigned_abs()) > TOLD_FROM.saturating_add(uncertainty)
    }
}

impl fmt::Display for Skew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = Duration::from_micros(self.0.unsigned_abs()).as_millis() / 100;
        let way = if self.0 < 0 { "behind" } else { "ahead of" };
        write!(f, "{}.{} s {way}", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_above_a_second_is_worth_a_word() {
        let at = |seconds: u64| Wall::from_micros(seconds * 1_000_000);
        for (skew, uncertainty, is_above, shown) in [
            (Skew::between(at(10), at(10)), 0, false, "0.0 s ahead of"),
            (Skew::between(at(11), at(10)), 0, false, "1.0 s ahead of"),
            (Skew::between(at(3610), at(10)), 5, true, "3600.0 s ahead of"),
            (Skew::between(at(10), at(13)), 1, true, "3.0 s behind"),
            (Skew::between(at(10), at(13)), 3, false, "3.0 s behind"),
        ] {
            assert_eq!((skew.is_above(Duration::from_secs(uncertainty)), &*skew.to_string()), (is_above, shown));
        }
    }
}
