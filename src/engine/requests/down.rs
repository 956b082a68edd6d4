//! SERVICE/PAUSE: no task is handed out for a while. It is not stored: a client that stops the service asks again and again.

use std::time::Duration;

use super::{Controller, Reply, Timer};
use crate::mode::Paused;
use base::journal::Severity;
use base::{IncidentKind, Now, Wall, span};

impl Controller {
    /// Until when no task starts: by a pause that a client repeats, or by the gate of the service.
    pub(super) fn paused_until(&self) -> Option<Wall> {
        let repeated = self.mode.paused.map(|paused| paused.until);
        repeated.max(self.queue.gates.service_closed_until())
    }

    /// A pause without a time ends the present one.
    pub(super) fn pause(&mut self, now: Now, interval: Duration) -> Reply {
        if interval.is_zero() {
            self.end_pause(now);
            return self.count_tasks();
        }
        let since = self.mode.paused.map_or(now.wall, |paused| paused.since);
        if self.mode.paused.replace(Paused { since, until: now.wall + interval }).is_none() {
            let line = format!("a client has paused the service for {}; no task starts", span(interval));
            self.turn.incident(Severity::Warn, IncidentKind::Paused, line);
        }
        self.turn.set_timer(Timer::Pause, now.mono + interval);
        self.count_tasks()
    }

    /// Tasks are handed out again.
    pub(crate) fn end_pause(&mut self, now: Now) {
        self.turn.clear_timer(&Timer::Pause);
        let Some(Paused { since, .. }) = self.mode.paused.take() else { return };
        let line = format!("the pause of the service has ended after {}", span(now.wall.since(since)));
        self.turn.incident(Severity::Info, IncidentKind::Paused, line);
        self.turn.inform();
    }
}
