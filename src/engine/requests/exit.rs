//! AGENT/EXIT: an agent leaves for good.

use super::{Controller, Remains, Reply, Slot, Timer};
use api::wire::requests::Sender;
use base::{AgentId, Now, RoundEnd};

impl Controller {
    pub(super) fn exit(&mut self, now: Now, sender: &Sender) -> Reply {
        self.session_is_over(now, &sender.agent, sender.session);
        self.give_up_runs_of(now, &sender.agent, RoundEnd::Returned);
        self.leave(now, &sender.agent);
        Reply::Done
    }

    /// Handles the end of an agent: its task waits again, and its state is dropped.
    pub(crate) fn leave(&mut self, now: Now, id: &AgentId) {
        self.turn.info(format!("agent {id} has left"));
        self.unpark(id);
        if let Slot::Busy(task) = self.fleet.slot_or_free(id) {
            self.void_list(now, id);
            self.void_round(now, task, RoundEnd::Returned, Remains::Gone);
        }
        self.forget_tools(now, id);
        self.drop_offer(id);
        self.fleet.remove(id);
        self.turn.clear_timer(&Timer::Silence(id.clone()));
    }
}
