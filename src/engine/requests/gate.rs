//! GATE/SET and GATE/QUERY: settings and states of gates.

use super::{Answer, Code, Controller, Filter, Goal, Record, Refusal, Reply, Ticket};
use api::wire::requests::gate::GateChange;
use base::journal::Severity;
use base::{GateSettings, IncidentKind, Label, Now, UNTIL_OPENED, Wall};

impl Controller {
    /// Changes the settings of a gate.
    pub(super) fn set_gate(&mut self, now: Now, name: &Label, change: &GateChange) -> Result<Reply, Refusal> {
        let gates = &self.queue.gates;
        if !gates.is_known(name) && gates.len() >= self.settings.gates_max {
            let message = format!("{} gates are known already (GATES_MAX)", self.settings.gates_max);
            return Err(Refusal::new(Code::LimitReached, message));
        }
        let mut settings = gates.settings(name);
        change.apply(&mut settings, now.wall);
        if name.is_of_service() && gates.service_closed_until() != settings.closed_until {
            self.tell_pause(settings.closed_until);
        }
        self.put_gate(now, name, settings);
        Ok(Reply::Done)
    }

    /// The pause of the service begins, ends, or gets another end.
    pub(crate) fn tell_pause(&mut self, until: Option<Wall>) {
        let line = match until {
            Some(UNTIL_OPENED) => "a client has paused the service; no task starts until it is resumed".to_owned(),
            Some(until) => format!("a client has paused the service until {until}; no task starts"),
            None => {
                self.turn.inform();
                "the pause of the service has ended".to_owned()
            }
        };
        self.turn.incident(Severity::Warn, IncidentKind::Paused, line);
    }

    /// A run has found that its gate cannot be passed for a while.
    pub(crate) fn close_gate(&mut self, now: Now, name: &Label, until: Wall) {
        let mut settings = self.queue.gates.settings(name);
        if settings.closed_until.is_none_or(|at| at < until) {
            let line = format!("gate {name} is closed until {until} by a task that was deferred");
            self.turn.incident(Severity::Info, IncidentKind::GateClosed, line);
            settings.closed_until = Some(until);
            self.put_gate(now, name, settings);
        }
    }

    fn put_gate(&mut self, now: Now, name: &Label, settings: GateSettings) {
        let record = Record::Gate(name.clone(), settings.clone());
        let queue = &mut self.queue;
        queue.gates.set(name, settings);
        queue.refresh_gated(now, std::iter::once(name));
        self.turn.store(record);
    }

    /// The state of one gate.
    pub(super) fn query_gate(&self, now: Now, name: &Label) -> Reply {
        let queue = &self.queue;
        Reply::Gate(queue.gates.view(now, name, queue.waiting_at(name)))
    }

    /// The states of all gates: a search, because there may be many.
    pub(super) fn list_gates(&mut self, now: Now, ticket: Ticket) -> Answer {
        self.search(now, ticket, Filter::default(), Goal::Gates)
    }

    /// The answer to GATE/QUERY.
    pub(crate) fn query_gates(&self, now: Now) -> Reply {
        let queue = &self.queue;
        let view = |name: &Label| queue.gates.view(now, name, queue.waiting_at(name));
        Reply::Gates(queue.gates.names().filter(|name| !name.is_of_service()).map(view).collect())
    }
}
