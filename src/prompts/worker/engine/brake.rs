//! The pauses that a worker makes by itself: after a limit that names no time, after failures in quick succession, and when its
//! machine cannot run a command or keep its results. They double while nothing succeeds.
//!
//! Failures in quick succession often have one common reason: an expired login, a missing model, a broken network. So after
//! some of them the worker gives the next prompt back instead of failing it, and pauses. The first failure after the pause counts
//! again, so that prompts that do fail at once come to an end.

use std::time::Duration;

/// The settings of pauses.
#[derive(Clone, Copy, Debug)]
pub struct BrakeSettings {
    /// Number of quick failures in a row; 0 never pauses for them.
    pub fails: u32,
    /// A run that takes longer is no quick failure.
    pub quick: Duration,
    /// The longest pause.
    pub pause_max: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Brake {
    quick_fails: u32,
    /// Pauses since the last run that was no quick failure.
    pauses: u32,
    /// The last run ended with a pause.
    is_paused: bool,
    /// The outputs of the last run with an answer could not be read.
    is_unread: bool,
}

impl Brake {
    /// A run has ended by itself.
    pub(super) const fn release(&mut self) {
        *self = Self { quick_fails: 0, pauses: 0, is_paused: false, is_unread: self.is_unread };
    }

    /// The outputs of a run were read to their end.
    pub(super) const fn outputs_read(&mut self) {
        self.is_unread = false;
    }

    /// The outputs of a run cannot be read. True for the second run in a row: the disk may be broken.
    pub(super) const fn outputs_unread(&mut self) -> bool {
        std::mem::replace(&mut self.is_unread, true)
    }

    /// A run has failed. True if its prompt is given back, for a pause.
    pub(super) fn failed(&mut self, settings: &BrakeSettings, took: Duration) -> bool {
        if took >= settings.quick {
            self.release();
            return false;
        }
        self.quick_fails += 1;
        let pauses = settings.fails > 0 && self.quick_fails >= settings.fails && !self.is_paused;
        self.is_paused = false;
        pauses
    }

    /// The length of the next pause, which begins with `first` and doubles.
    pub(super) fn pause(&mut self, settings: &BrakeSettings, first: Duration) -> Duration {
        let pause = first.saturating_mul(1_u32.checked_shl(self.pauses).unwrap_or(u32::MAX));
        self.pauses = (self.pauses + 1).min(20);
        self.is_paused = true;
        pause.min(settings.pause_max.max(first))
    }
}
