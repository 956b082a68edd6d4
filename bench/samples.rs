//! Statistics of many samples and of several rounds.

use std::time::Duration;

/// The median of several rounds, with the minimum and the maximum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// The median of the rounds.
    pub(crate) median: f64,
    /// The minimum.
    pub(crate) min: f64,
    /// The maximum.
    pub(crate) max: f64,
}

impl Spread {
    /// The statistics of these rounds; zeros, if there are none.
    #[must_use]
    pub(crate) fn of(rounds: &[f64]) -> Self {
        let sorted = sorted(rounds);
        let ends = sorted.first().zip(sorted.last());
        ends.map_or(Self { median: 0.0, min: 0.0, max: 0.0 }, |(&min, &max)| Self { median: middle(&sorted), min, max })
    }
}

/// The smallest sample that at least the given share (0 to 1) of the samples does not exceed: the nearest rank.
pub(crate) fn percentile(samples: &[f64], share: f64) -> f64 {
    let sorted = sorted(samples);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a count"
    )]
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// Operations per second.
#[expect(clippy::cast_precision_loss, reason = "no case counts to 2^53")]
pub(crate) fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}

/// The time of each operation in seconds.
#[expect(clippy::cast_precision_loss, reason = "no case counts to 2^53")]
pub(crate) fn each(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() / count.max(1) as f64
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_of_what_came_in_any_order() {
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(Spread::of(&[4.0, 1.0]).median, 2.5);
        assert_eq!(Spread::of(&[]), Spread { median: 0.0, min: 0.0, max: 0.0 });
    }

    #[test]
    fn a_percentile_is_one_of_the_samples() {
        let samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|share| percentile(&samples, share)), [50.0, 99.0, 100.0]);
        assert_eq!((percentile(&[7.0], 0.5), percentile(&[], 0.5)), (7.0, 0.0));
    }
}
