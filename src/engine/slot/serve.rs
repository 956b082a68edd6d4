//! The outputs of runs, offered to the controller: one AGENT/SERVE is parked there, and costs nothing until a part is wanted.
//!
//! | event | message |
//! |---|---|
//! | the answer to a heartbeat says that the controller has no offer: the connection or the controller is new | an offer |
//! | the wanted part has been read, or cannot be | the part, which is the next offer |
//! | a watched output has grown | that it has, which replaces the parked offer |
//!
//! A controller that does not know AGENT/SERVE says nothing about it, and gets none.

use super::{Effect, Slot, Timer};
use crate::protocol::requests::FromAgent;
use crate::protocol::requests::serve::Served;

impl Slot {
    /// A wanted part of an output, or the growth of a watched one.
    pub fn handle_served(&mut self, served: Served) {
        // The controller answers for a lost connection itself, and its next life knows of no wanted part.
        if self.link.is_up() && !self.timers.is_set(&Timer::Farewell) {
            self.effects.push_back(Effect::Send(FromAgent::Serve(served)));
        }
    }

    /// Repeats an offer that the controller does not have. One that is on its way already is replaced by it.
    pub(super) fn offer_outputs(&mut self, serving: Option<bool>) {
        if serving == Some(false) {
            self.handle_served(Served::Offer);
        }
    }
}
