//! The difference between the clocks of the agent and its controller: measured with each answered heartbeat, and logged once, until it
//! is gone.

use std::time::Duration;

use base::{Now, Skew, Wall};

#[derive(Debug, Default)]
pub(super) struct SkewMeter {
    /// The difference that was logged.
    reported: Option<Skew>,
}

impl SkewMeter {
    /// The controller had this time while a heartbeat and its answer were on their way. Returns a difference to be logged.
    pub(super) fn measure(&mut self, now: Now, round_trip: Duration, controller: Wall) -> Option<Skew> {
        let skew = Skew::between(now.wall.before(round_trip / 2), controller);
        if skew.is_below(round_trip / 2) {
            self.reported = None;
        }
        if self.reported.is_some() || !skew.is_above(round_trip / 2) {
            return None;
        }
        self.reported = Some(skew);
        self.reported
    }

    /// The difference for a heartbeat.
    pub(super) const fn reported(&self) -> Option<Skew> {
        self.reported
    }
}
