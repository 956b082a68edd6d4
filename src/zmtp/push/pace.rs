//! Limits the rate at which one receiver may send to us, so that a flood of acknowledgements does not occupy the loop.

use std::time::Duration;

use base::Mono;

/// Maximum frames read in one window. The resulting 25,600 per second are far more than one acknowledgement per task.
pub(super) const FRAMES_PER_WINDOW: usize = 256;

/// Length of a window. Unread bytes stay in the connection and in the kernel, and TCP slows their sender down.
pub(super) const WINDOW: Duration = Duration::from_millis(10);

/// The allowance for reading from one receiver.
#[derive(Debug)]
pub(super) struct Pace {
    window_end: Mono,
    left: usize,
}

impl Pace {
    /// Begins a new window if the last one has ended.
    pub(super) fn tick(&mut self, now: Mono) {
        if now >= self.window_end {
            *self = Self { window_end: now + WINDOW, left: FRAMES_PER_WINDOW };
        }
    }

    /// Frames that may be read in this window.
    pub(super) const fn left(&self) -> usize {
        self.left
    }

    /// Counts frames that were read.
    pub(super) const fn spend(&mut self, frames: usize) {
        self.left = self.left.saturating_sub(frames);
    }

    /// When reading continues, if the window is spent.
    pub(super) fn paused_until(&self) -> Option<Mono> {
        (self.left == 0).then_some(self.window_end)
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self { window_end: Mono::default(), left: FRAMES_PER_WINDOW }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_comes_back_with_the_next_window() {
        let now = Mono::from_nanos(5);
        let mut pace = Pace::default();
        pace.tick(now);
        pace.spend(200);
        pace.tick(now);
        assert_eq!((pace.left(), pace.paused_until()), (56, None));
        pace.spend(56);
        assert_eq!((pace.left(), pace.paused_until()), (0, Some(now + WINDOW)));
        pace.tick(now + WINDOW);
        assert_eq!((pace.left(), pace.paused_until()), (FRAMES_PER_WINDOW, None));
    }
}
