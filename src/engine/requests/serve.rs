//! AGENT/SERVE: an agent offers the outputs of its runs, and sends what it was asked for.

use super::{Answer, Controller, Slot, Ticket};
use api::wire::reply;
use api::wire::requests::serve::Served;
use base::{AgentId, Now};

impl Controller {
    pub(super) fn serve(&mut self, now: Now, ticket: Ticket, id: &AgentId, served: Served) -> Answer {
        let (replaced, is_new) = self.readers.outputs.park(id, ticket);
        replaced.into_iter().for_each(|parked| self.turn.reply(parked, reply::replaced()));
        match served {
            Served::Offer => {}
            Served::Part(ask, part) => {
                if let Some(client) = self.readers.outputs.answered(id, ask) {
                    self.take_part(now, id, client, part);
                }
            }
            Served::Grown(output) => {
                for client in self.readers.outputs.watching(&output) {
                    self.queue_output(now, client, id);
                }
            }
        }
        if let (true, Slot::Busy(task)) = (is_new, self.fleet.slot_or_free(id)) {
            for client in self.readers.outputs.waits().of_subject(&task) {
                self.reconsider_output(now, client);
            }
        }
        self.ask_agent(now, id);
        Answer::Later
    }
}
