//! The progress of a run, from the file that its program writes: read soon after the start, with each heartbeat, and after a change.
//!
//! A short run pays one timer. The file is read, and reported, at most twice a second.

use std::time::Duration;

use super::{Effect, Slot, Timer};
use base::{Now, Progress};

/// The time from the start of a run to the first read.
pub(super) const FIRST_LOOK: Duration = Duration::from_millis(250);

/// The time between two reads of a file that changes.
const PAUSE: Duration = Duration::from_millis(500);

impl Slot {
    /// The file has been read.
    pub fn handle_progress(&mut self, now: Now, progress: Option<Progress>) {
        if progress.is_some_and(|progress| self.run.set_progress(progress)) {
            self.report_soon(now);
        }
    }

    /// The file has changed since the last read.
    pub fn handle_progress_change(&mut self, now: Now) {
        self.timers.set(Timer::Progress, now.mono + PAUSE);
    }

    pub(super) fn look_at_progress(&mut self) {
        if self.run.writes() {
            self.effects.push_back(Effect::LookAtProgress);
        }
    }
}
