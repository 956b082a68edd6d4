//! The distribution of run times, for example those of a job: quantiles within five percent, in bounded memory. A run
//! can be removed again.
//!
//! Each power of two of microseconds has sixteen buckets, so the middle of a bucket differs from each of its times by
//! at most 1/32. Only buckets with a run are kept: about a thousand at most.

use std::collections::BTreeMap;
use std::time::Duration;

use super::RunTimes;

/// Bits of a time that select its bucket, after the highest one.
const BITS: u32 = 4;

/// Buckets for each power of two. Times below this many microseconds have a bucket of their own.
const BUCKETS: u64 = 1 << BITS;

/// A run is longer than usual if it exceeds the usual time by more than this factor, ...
const LONGER_FACTOR: u32 = 3;

/// ... and by more than this, so that one delay of a short run does not count.
const LONGER_BY: Duration = Duration::from_secs(1);

/// Whether a run that took `ran` is longer than usual.
#[must_use]
pub fn is_longer(ran: Duration, usual: Duration) -> bool {
    ran > usual.saturating_mul(LONGER_FACTOR) && ran > usual + LONGER_BY
}

/// Counts of run times by bucket. See the head of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    runs: BTreeMap<u16, u32>,
    len: u64,
}

impl Distribution {
    /// Counts a time.
    pub fn add(&mut self, time: Duration) {
        *self.runs.entry(bucket(time)).or_default() += 1;
        self.len += 1;
    }

    /// Removes a time that was added before.
    pub fn remove(&mut self, time: Duration) {
        let bucket = bucket(time);
        if let Some(count) = self.runs.get_mut(&bucket) {
            *count -= 1;
            self.len -= 1;
            if *count == 0 {
                self.runs.remove(&bucket);
            }
        }
    }

    /// Adds all times of another distribution.
    pub fn extend(&mut self, other: &Self) {
        for (bucket, count) in &other.runs {
            *self.runs.entry(*bucket).or_default() += count;
        }
        self.len += other.len;
    }

    /// The quantiles; `None` without a run.
    #[must_use]
    pub fn quantiles(&self) -> Option<RunTimes> {
        let max = self.runs.last_key_value().map(|(bucket, _)| middle(*bucket))?;
        Some(RunTimes { p50: self.quantile(50), p90: self.quantile(90), max })
    }

    /// Number of the runs.
    #[must_use]
    pub const fn runs(&self) -> u64 {
        self.len
    }

    /// The time that this percentage of the runs did not exceed; zero without a run.
    #[must_use]
    pub fn quantile(&self, percent: u64) -> Duration {
        let wanted = (self.len * percent).div_ceil(100);
        let mut seen = 0;
        let reached = self.runs.iter().find(|(_, count)| {
            seen += u64::from(**count);
            seen >= wanted
        });
        reached.map(|(bucket, _)| middle(*bucket)).unwrap_or_default()
    }
}

fn bucket(time: Duration) -> u16 {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let shift = (u64::BITS - micros.leading_zeros()).saturating_sub(BITS + 1);
    // The first bit of a large time is always set, so that it numbers the power of two.
    let number = if shift == 0 { micros } else { u64::from(shift) * BUCKETS + (micros >> shift) };
    u16::try_from(number).unwrap_or(u16::MAX)
}

fn middle(bucket: u16) -> Duration {
    let number = u64::from(bucket);
    let shift = (number / BUCKETS).saturating_sub(1);
    let micros = if shift == 0 { number } else { ((number - shift * BUCKETS) << shift) + (1 << (shift - 1)) };
    Duration::from_micros(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_within_five_percent_of_its_times() {
        for exponent in 0..63 {
            for micros in [1_u64 << exponent, (1 << exponent) + (1 << exponent) / 3, (2 << exponent) - 1] {
                let (time, shown) = (Duration::from_micros(micros), middle(bucket(Duration::from_micros(micros))));
                assert!(shown.abs_diff(time) * 20 <= time, "{time:?} is shown as {shown:?}");
            }
        }
        assert!(bucket(Duration::MAX) < 1100);
    }

    #[test]
    fn quantiles_follow_what_comes_and_goes() {
        let mut runs = Distribution::default();
        assert_eq!(runs.quantiles(), None);
        (1..=100).for_each(|n| runs.add(Duration::from_secs(n)));
        let near = |time: Duration, seconds: u64| time.abs_diff(Duration::from_secs(seconds)) * 20 <= time;
        let RunTimes { p50, p90, max } = runs.quantiles().unwrap();
        assert!(near(p50, 50) && near(p90, 90) && near(max, 100), "{p50:?} {p90:?} {max:?}");
        (51..=100).for_each(|n| runs.remove(Duration::from_secs(n)));
        let RunTimes { p50, max, .. } = runs.quantiles().unwrap();
        assert!(near(p50, 25) && near(max, 50), "{p50:?} {max:?}");
        (1..=50).for_each(|n| runs.remove(Duration::from_secs(n)));
        assert_eq!(runs, Distribution::default());
    }

    #[test]
    fn a_run_is_longer_than_usual_by_a_multiple_and_a_second() {
        let longer = |ran: u64, usual: u64| is_longer(Duration::from_millis(ran), Duration::from_millis(usual));
        assert_eq!(
            [longer(900, 1), longer(1_100, 1), longer(29_000, 10_000), longer(31_000, 10_000)],
            [false, true, false, true]
        );
    }
}
