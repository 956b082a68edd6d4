//! The difference between the clocks of the agent and of its controller. It is measured with each answered heartbeat, and told once.

use std::time::Duration;

use base::{Now, Skew, Wall};

#[derive(Debug, Default)]
pub(super) struct SkewMeter {
    /// The difference that was told.
    told: Option<Skew>,
}

impl SkewMeter {
    /// The controller had this time while a heartbeat and its answer were on their way. A difference that is news.
    pub(super) fn measure(&mut self, now: Now, round_trip: Duration, controller: Wall) -> Option<Skew> {
        let skew = Skew::between(now.wall.before(round_trip / 2), controller);
        if self.told.is_some() || !skew.is_above(round_trip / 2) {
            return None;
        }
        self.told = Some(skew);
        self.told
    }

    /// What a heartbeat tells.
    pub(super) const fn told(&self) -> Option<Skew> {
        self.told
    }
}
