//! An amount of money.

use std::fmt;

/// US dollars in millionths, so that sums do not depend on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd(u64);

impl Usd {
    /// This many dollars, rounded to millionths; `None` for a negative number, or for a billion and more.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range check keeps the value inside u64"
    )]
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        (0.0..1e9).contains(&dollars).then(|| Self((dollars * 1e6).round() as u64))
    }

    /// The amount in dollars.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "amounts stay far below 2^53 millionths")]
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// This many times the amount.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }

    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// `1.25 USD`; an amount below ten cents has four decimals.
impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = if self.0 < 100_000 && !self.0.is_multiple_of(10_000) { 4 } else { 2 };
        write!(f, "{:.decimals$} USD", self.dollars())
    }
}
