//! Two kinds of time that must never be mixed: [`Mono`] for deadlines, [`Wall`] for people.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// Ten years, the longest duration that may be requested. It exceeds the life of any task, and sums with it do not
/// overflow.
pub const SECONDS_MAX: f64 = 315_360_000.0;

/// A point on the monotonic clock, in nanoseconds since an arbitrary start. Never stored, never sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(u64);

impl Mono {
    /// A point `nanos` nanoseconds after the start of the clock.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The point `duration` before this one, or the start of the clock if that is later.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The time from `earlier` to this point, or zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Mono {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// A point on the wall clock, in microseconds since the Unix epoch. The clock may jump in either direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(u64);

impl Wall {
    /// A point `micros` microseconds after the Unix epoch.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// The point `duration` before this one, or the Unix epoch if that is later.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }

    /// The time from `earlier` to this point, or zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// Converts Unix seconds with decimals; `None` if they are not a moment since the epoch.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range check keeps the value inside u64"
    )]
    pub fn from_unix_seconds(seconds: f64) -> Option<Self> {
        // 2^53 microseconds are 285 years. Beyond that a double cannot represent single microseconds.
        let micros = seconds * 1e6;
        (0.0..9.007_199_254_740_992e15).contains(&micros).then(|| Self(micros.round() as u64))
    }

    /// Unix seconds with decimals, as on the wire.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "exact below 2^53 microseconds, 285 years")]
    pub fn unix_seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl Add<Duration> for Wall {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)))
    }
}

/// Decimals of the text of a moment: microseconds.
const DECIMALS: usize = 6;

/// Bytes of the longest text of a moment: the digits of the largest number, and a point.
pub(super) const WALL_BYTES_MAX: usize = u64::MAX.ilog10() as usize + 2;

/// The text of a moment: unix seconds with six decimals. Even a short task has about twenty, so they avoid the general
/// formatter, which would cost more than the rest of their JSON.
#[derive(Clone, Copy, Debug)]
pub struct WallText {
    text: [u8; WALL_BYTES_MAX],
    at: usize,
}

impl WallText {
    /// The text, which is ASCII.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[self.at..]
    }
}

impl Wall {
    /// The moment as a text.
    #[must_use]
    pub fn to_text(self) -> WallText {
        let mut text = [0; WALL_BYTES_MAX];
        let at = self.write_before(WALL_BYTES_MAX, &mut text);
        WallText { text, at }
    }

    /// Writes its text so that it ends at `end`, which must be at least [`WALL_BYTES_MAX`], and returns where it begins.
    pub(super) fn write_before(self, end: usize, text: &mut [u8]) -> usize {
        const BEFORE_POINT: u64 = 10_u64.pow(DECIMALS as u32);
        let digit = |number: &mut u64| {
            let digit = b'0' + u8::try_from(*number % 10).unwrap_or_default();
            *number /= 10;
            digit
        };
        let (mut seconds, mut micros) = (self.0 / BEFORE_POINT, self.0 % BEFORE_POINT);
        let mut at = end - DECIMALS;
        text[at..end].iter_mut().rev().for_each(|place| *place = digit(&mut micros));
        at -= 1;
        text[at] = b'.';
        loop {
            at -= 1;
            text[at] = digit(&mut seconds);
            if seconds == 0 {
                return at;
            }
        }
    }
}

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(self.to_text().as_bytes()).unwrap_or_default())
    }
}

/// The moment of an event on both clocks. The shell reads it once per turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For deadlines.
    pub mono: Mono,
    /// For people, ids and retention.
    pub wall: Wall,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_seconds_and_six_decimals() {
        for micros in [0, 1, 10, 999_999, 1_000_000, 10_000_000, 1_480_000_000_120_000, u64::MAX] {
            let expected = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
            assert_eq!(Wall::from_micros(micros).to_string(), expected);
        }
    }
}
