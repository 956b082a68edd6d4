//! What goes wrong, and the calm after it.

use crate::dice::MILLI;
use crate::host::Input;
use crate::plan::{Fault, Weather};
use crate::world::{Event, World, note};

impl World {
    pub(crate) fn fault(&mut self, fault: Fault) {
        note!(self, "{fault:?}");
        match fault {
            Fault::ControllerCrash { operations: 0 } => self.controller_dies(),
            Fault::ControllerCrash { operations } => self.server.crash_in = Some(operations),
            Fault::ControllerStop => self.controller_stops(),
            Fault::ControllerClock { seconds } => self.server.clock_offset += seconds,
            Fault::AgentCrash { agent, operations: 0 } => self.agent_dies(agent),
            Fault::AgentCrash { agent, operations } => self.hosts[agent].crash_in = Some(operations),
            Fault::AgentPause { agent, length } => {
                if self.hosts[agent].slot.is_some() {
                    self.hosts[agent].paused = true;
                    self.model.paused(agent, length);
                    self.after(length, Event::AgentResumes { agent });
                }
            }
            Fault::AgentStop { agent } => self.agent_receives(agent, Input::Stop),
            Fault::AgentClock { agent, seconds } => self.hosts[agent].clock_offset += seconds,
            Fault::Cut { agent } => self.break_connection(agent),
        }
    }

    /// From here on nothing goes wrong any more.
    pub(crate) fn calm_down(&mut self) {
        note!(self, "from here on nothing goes wrong");
        self.plan.weather = Weather { delay_max: 2 * MILLI, ..Weather::default() };
        self.server.crash_in = None;
        for agent in 0..self.hosts.len() {
            self.hosts[agent].crash_in = None;
            if self.hosts[agent].paused {
                self.agent_resumes(agent);
            }
        }
    }
}
