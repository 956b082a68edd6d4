//! The outputs of runs, offered to the controller: one AGENT/SERVE is parked there, and costs nothing until a part is wanted.
//!
//! | event | message |
//! |---|---|
//! | the answer to a heartbeat says that the controller has no offer: the connection or the controller is new | an offer |
//! | the wanted part has been read, or cannot be | the part, which is the next offer |
//! | a watched output has grown | that it has, which replaces the parked offer |
//!
//! The outputs of a run that goes on are also looked at with each heartbeat, and more often once one of them is long, so that the
//! disk need not hold all that a task ever prints. A short run pays nothing for it.
//!
//! A controller that does not know AGENT/SERVE says nothing about it, and gets none.

use std::time::Duration;

use super::{Effect, Slot, Timer};
use api::wire::requests::FromAgent;
use api::wire::requests::serve::Served;
use base::Now;

/// How often a long output is looked at: it grows by some hundred MB meanwhile, at most.
const TRIM_INTERVAL: Duration = Duration::from_millis(200);

impl Slot {
    /// A wanted part of an output, or the growth of a watched one.
    pub fn handle_served(&mut self, served: Served) {
        // The controller answers for a lost connection itself, and its next life knows of no wanted part.
        if self.link.is_up() && !self.timers.is_set(&Timer::Farewell) {
            self.effects.push_back(Effect::Send(FromAgent::Serve(served)));
        }
    }

    /// The outputs of the run have been looked at; one of them may soon be longer than what is kept.
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

    /// Repeats an offer that the controller does not have. One that is on its way already is replaced by it.
    pub(super) fn offer_outputs(&mut self, serving: Option<bool>) {
        if serving == Some(false) {
            self.handle_served(Served::Offer);
        }
    }
}
