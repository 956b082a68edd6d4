//! AGENT/SERVE: an agent offers the outputs of its runs, and sends what it was asked for.

use super::{Answer, Controller, Effect, Slot, Ticket};
use api::wire::reply;
use api::wire::requests::serve::Served;
use base::{AgentId, Now};

impl Controller {
    pub(super) fn serve(&mut self, now: Now, ticket: Ticket, id: &AgentId, served: Served) -> Answer {
        let (replaced, is_new) = self.outputs.park(id, ticket);
        self.tasks.effects.extend(replaced.map(|replaced| Effect::Reply(replaced, reply::replaced())));
        match served {
            Served::Offer => {}
            Served::Part(ask, part) => {
                if let Some(client) = self.outputs.answered(id, ask) {
                    self.take_part(now, id, client, part);
                }
            }
            Served::Grown(output) => {
                for client in self.outputs.watching(&output) {
                    self.queue_output(now, client, id);
                }
            }
        }
        if let (true, Slot::Busy(task)) = (is_new, self.agents.slot_or_free(id)) {
            for client in self.outputs.waits.of_subject(&task) {
                self.reconsider_output(now, client);
            }
        }
        self.ask_agent(now, id);
        Answer::Later
    }
}
