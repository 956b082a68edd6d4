//! SERVICE/PAUSE: no task is handed out for a while. It is not stored: a client that stops the service asks again and again.

use std::time::Duration;

use super::{Controller, Reply, Timer};
use crate::types::Now;

impl Controller {
    pub(super) fn pause(&mut self, now: Now, interval: Duration) -> Reply {
        self.is_paused = true;
        self.timers.set(Timer::Pause, now.mono + interval);
        self.count_tasks()
    }

    /// Tasks are handed out again.
    pub(in crate::engine::controller) fn end_pause(&mut self) {
        self.is_paused = false;
        self.inform();
    }
}
