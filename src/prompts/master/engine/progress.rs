//! The ended prompts: their numbers, the usual time of a run, the rate, and when the last prompt is expected to end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::effect::Totals;
use super::file::FileName;
use crate::wire::{Pace, Status};
use base::{Mono, Now, Usd};

/// Number of the last runs from which the pace is computed.
const RUNS_MAX: usize = 256;

/// Fewer ends give no rate.
const ENDS_MIN: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Start of this master.
    started: Mono,
    /// Number of files in `done/` and `failed/`.
    done: u64,
    failed: u64,
    /// Number of files that this master has put there.
    succeeded_here: u64,
    failed_here: u64,
    /// The names of files in `failed/`, and whether this master has put each of them there.
    failed_names: BTreeMap<FileName, bool>,
    /// Number of prompts that have failed because their time was up.
    timed_out: u64,
    /// The times that the last runs took, and when they ended.
    runs: VecDeque<(Duration, Mono)>,
}

impl Progress {
    /// For this many prompts that were processed before.
    pub(super) fn new(started: Mono, done: u64, failed: u64) -> Self {
        Self { started, done, failed, ..Self::default() }
    }

    /// The files that an earlier master has put into `failed/`.
    pub(super) fn restore_failed(&mut self, names: BTreeSet<FileName>) {
        self.failed_names = names.into_iter().map(|name| (name, false)).collect();
    }

    /// A file has been put into `done/`.
    pub(super) const fn count_done(&mut self) {
        self.done += 1;
        self.succeeded_here += 1;
    }

    /// A file has been put into `failed/`.
    pub(super) fn count_failed(&mut self, file: FileName) {
        self.failed += 1;
        self.failed_here += 1;
        self.failed_names.insert(file, true);
    }

    /// A run has failed because its time was up.
    pub(super) const fn count_timed_out(&mut self) {
        self.timed_out += 1;
    }

    pub(super) fn has_failed(&self, file: &FileName) -> bool {
        self.failed_names.contains_key(file)
    }

    /// A file of `failed/` is in `pending/` again.
    pub(super) fn retried(&mut self, file: &FileName) {
        if let Some(is_ours) = self.failed_names.remove(file) {
            self.failed = self.failed.saturating_sub(1);
            self.failed_here -= u64::from(is_ours);
        }
    }

    /// The part of the status about ended prompts, with this many left.
    pub(super) fn status(&self, now: Now, left: u64) -> Status {
        Status {
            done: self.done,
            failed: self.failed,
            running_for: now.mono.since(self.started),
            pace: self.pace(now, left),
            timed_out: self.timed_out,
            ..Status::default()
        }
    }

    /// The summary at this end, with the number of prompts that are left.
    pub(super) fn totals(&self, end: Mono, left: u64, cost: Option<Usd>) -> Totals {
        let (succeeded, failed) = (self.succeeded_here, self.failed_here);
        let (running_for, all) = (end.since(self.started), succeeded + failed + left);
        Totals { running_for, all, succeeded, failed, timed_out: self.timed_out, cost }
    }

    /// A run has ended with a result.
    pub(super) fn note(&mut self, now: Now, took: Duration) {
        if self.runs.len() == RUNS_MAX {
            self.runs.pop_front();
        }
        self.runs.push_back((took, now.mono));
    }

    /// The pace, with this many prompts left. The rate is that of the last runs, including all limits and pauses.
    fn pace(&self, now: Now, left: u64) -> Pace {
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

    pub(super) fn sanity_check(&self) {
        assert!(self.succeeded_here <= self.done && self.failed_here <= self.failed);
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
