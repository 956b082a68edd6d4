//! The outputs of runs, offered to the controller: one AGENT/SERVE is parked there until the controller wants a part.
//!
//! | event | message |
//! |---|---|
//! | the answer to a heartbeat says that the controller has no offer: the connection or the controller is new | an offer |
//! | the wanted part has been read, or cannot be | the part, which is the next offer |
//! | a watched output has grown | the growth, which replaces the parked offer |
//!
//! The outputs of a run are measured with each heartbeat, and more often once one is long, so that the disk need not hold all
//! that a task ever prints. A short run costs nothing.
//!
//! A controller without AGENT/SERVE gets no offer.

use std::time::Duration;

use super::{Effect, Slot, Timer};
use api::wire::requests::FromAgent;
use api::wire::requests::serve::Served;
use base::Now;

/// Time between two measurements of a long output, which grows by some hundred MB meanwhile, at most.
const TRIM_INTERVAL: Duration = Duration::from_millis(200);

impl Slot {
    /// A wanted part of an output, or the growth of a watched one.
    pub fn handle_served(&mut self, served: Served) {
        // After the loss of a connection the controller answers its readers itself, and a new controller wants no old part.
        if self.link.is_up() && !self.timers.is_set(&Timer::Farewell) {
            self.effects.push_back(Effect::Send(FromAgent::Serve(served)));
        }
    }

    /// The outputs of the run have been measured; with `is_long`, one may soon exceed the kept length.
    pub fn handle_trimmed(&mut self, now: Now, is_long: bool) {
        if is_long {
            self.timers.set(Timer::Trim, now.mono + TRIM_INTERVAL);
        }
    }

    pub(super) fn trim_outputs(&mut self) {
        if self.run.writes() {
            self.effects.push_back(Effect::TrimOutputs);
        }
    }

    /// Repeats an offer that the controller does not have. The repetition replaces an offer that is on its way.
    pub(super) fn offer_outputs(&mut self, serving: Option<bool>) {
        if serving == Some(false) {
            self.handle_served(Served::Offer);
        }
    }
}
