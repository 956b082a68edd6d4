//! The end of a connection, and of the controller itself.

use super::effect::{ConnectionId, Ticket, Timer};
use crate::Controller;
use crate::fleet::agent;

impl Controller {
    /// Refuses submits from here on and answers all parked requests.
    pub fn handle_stop(&mut self) {
        self.mode.is_stopping = true;
        let agents: Vec<_> = self.fleet.iter().map(|(id, _)| id.clone()).collect();
        for id in agents {
            self.unpark(&id);
        }
        let waits: Vec<_> = self.readers.waits.iter().map(|(ticket, _)| ticket).collect();
        for ticket in waits {
            self.answer_waiter(ticket);
        }
        self.refuse_postponed();
        self.stop_outputs();
        self.flush_graph_statuses();
    }

    /// A connection is gone: its parked queries, its searches and the requests of its agents are dropped. Returns the tickets
    /// that therefore get no answer.
    #[must_use]
    pub fn handle_disconnected(&mut self, connection: ConnectionId) -> Vec<Ticket> {
        let mut forgotten = self.readers.waits.of(connection);
        for ticket in &forgotten {
            self.readers.waits.remove(*ticket);
            self.turn.clear_timer(&Timer::QueryWait(*ticket));
        }
        forgotten.extend(self.forget_postponed(connection));
        forgotten.extend(self.readers.scans.forget(connection));
        forgotten.extend(self.forget_outputs(connection));
        self.abandon_files(connection);
        for (agent, ticket) in self.fleet.parked_by(connection) {
            self.fleet.set_slot(&agent, agent::Slot::Free);
            self.turn.clear_timer(&Timer::ApplyWait(agent));
            forgotten.push(ticket);
        }
        forgotten
    }
}
