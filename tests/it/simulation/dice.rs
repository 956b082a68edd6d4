//! The one source of chance, and the record of what happened: a seed decides both.

use std::fmt::{self, Write};
use std::ops::RangeInclusive;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};

/// Virtual time, in nanoseconds since the start of a simulation.
pub(crate) type Nanos = u64;

pub(crate) const MICRO: Nanos = 1_000;
pub(crate) const MILLI: Nanos = 1_000_000;
pub(crate) const SECOND: Nanos = 1_000_000_000;

/// Everything that a simulation leaves to chance.
pub(crate) struct Dice(Xoshiro256PlusPlus);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0.random()
    }

    pub(crate) fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        self.0.random_range(range)
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.0.random_range(0..len)
    }

    /// True in so many of a thousand cases.
    pub(crate) fn chance(&mut self, per_mille: u64) -> bool {
        per_mille > 0 && self.within(1..=1000) <= per_mille
    }

    /// Mostly near the low end, sometimes near the high one: real delays and durations are like that.
    pub(crate) fn skewed(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = range.into_inner();
        let most = self.within(low..=high);
        let less = self.within(low..=most);
        if self.chance(200) { most } else { self.within(low..=less) }
    }
}

/// The history line by line, as one number; two runs of a seed must have the same.
pub(crate) struct Trace {
    hash: u64,
    shown: bool,
}

impl Trace {
    pub(crate) fn new(shown: bool) -> Self {
        // FNV-1a
        Self { hash: 0xcbf2_9ce4_8422_2325, shown }
    }

    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    #[expect(clippy::print_stdout, reason = "needed when a seed is replayed")]
    pub(crate) fn line(&mut self, now: Nanos, text: fmt::Arguments<'_>) {
        // The hash takes any text.
        let _ = write!(self, "{now} {text}");
        if self.shown {
            println!("{:>5}.{:06} {text}", now / SECOND, now % SECOND / MICRO);
        }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Write for Trace {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}
