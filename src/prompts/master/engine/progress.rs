//! How fast prompts end: the usual time of a run, the rate, and when the last one is expected to end.

use std::collections::VecDeque;
use std::time::Duration;

use crate::wire::Pace;
use base::{Mono, Now};

/// Number of the last runs that are looked at.
const RUNS_MAX: usize = 256;

/// With fewer ends, no rate is named.
const ENDS_MIN: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The times that the last runs took, and when they ended.
    runs: VecDeque<(Duration, Mono)>,
}

impl Progress {
    /// A run has ended with a result.
    pub(super) fn note(&mut self, now: Now, took: Duration) {
        if self.runs.len() == RUNS_MAX {
            self.runs.pop_front();
        }
        self.runs.push_back((took, now.mono));
    }

    /// The pace, for this many prompts that have not ended. The rate is that of the last runs, with all limits and pauses among them.
    pub(super) fn pace(&self, now: Now, left: u64) -> Pace {
        let mut times: Vec<Duration> = self.runs.iter().map(|(took, _)| *took).collect();
        times.sort_unstable();
        let median = times.get(times.len() / 2).copied();
        let rate = self.runs.front().filter(|_| self.runs.len() >= ENDS_MIN).and_then(|(took, end)| {
            // From the start of the first of these runs.
            let span = (now.mono.since(*end) + *took).as_secs_f64();
            (span > 0.0).then(|| f64::from(u32::try_from(self.runs.len()).unwrap_or(u32::MAX)) / span)
        });
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let rest = rate.and_then(|rate| Duration::try_from_secs_f64(left as f64 / rate).ok());
        Pace { median, per_hour: rate.map(|rate| rate * 3600.0), rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u32) -> Now {
        Now { mono: Mono::default() + SECOND * seconds, ..Now::default() }
    }

    #[test]
    fn the_pace_is_that_of_the_last_runs_and_counts_pauses() {
        let mut progress = Progress::default();
        assert_eq!(progress.pace(at(0), 5), Pace::default());
        for (end, took) in [(10, 10), (20, 10), (30, 90)] {
            progress.note(at(end), SECOND * took);
        }
        let pace = progress.pace(at(30), 6);
        assert_eq!((pace.median, pace.per_hour, pace.rest), (Some(SECOND * 10), Some(360.0), Some(SECOND * 60)));
        // Nothing ends for a while.
        assert_eq!(progress.pace(at(60), 6).rest, Some(SECOND * 120));
        for end in 0..1000 {
            progress.note(at(1000 + end), SECOND);
        }
        assert_eq!(progress.pace(at(2000), 60).rest.unwrap().as_secs(), 60);
    }
}
