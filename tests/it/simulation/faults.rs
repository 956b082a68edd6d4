//! The faults, and the calm after them.

use crate::simulation::dice::{MICRO, MILLI, Nanos, SECOND};
use crate::simulation::event::Event;
use crate::simulation::host::Input;
use crate::simulation::plan::Fault;
use crate::simulation::world::{World, note};

/// The effects of the network on messages, per mille.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weather {
    pub(crate) drop: u64,
    pub(crate) duplicate: u64,
    pub(crate) publish_loss: u64,
    pub(crate) delay_max: Nanos,
    /// Messages that take far longer than the others.
    pub(crate) stall: u64,
}

impl World {
    pub(crate) fn fault(&mut self, fault: Fault) {
        if self.is_calm {
            return;
        }
        note!(self, "{fault:?}");
        match fault {
            Fault::ControllerCrash { operations: 0 } => self.controller_dies(),
            Fault::ControllerCrash { operations } => self.server.crash_in = Some(operations),
            Fault::ControllerStop => self.controller_stops(),
            Fault::ControllerClock { seconds } => self.server.clock_offset += seconds,
            Fault::TakeOver { is_frozen, length } => self.take_over(is_frozen, length),
            Fault::SlowDisk { length } => self.server.slow_until = self.now + length,
            Fault::FullDisk { length } => self.server.full_until = self.now + length,
            Fault::BrokenDisk => self.server.breaks = true,
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
            Fault::NetworkCut { agent, directions, length } => self.cut_network(agent, directions, length),
            Fault::Isolation { agent, length } => {
                self.hosts[agent].isolated_until = self.now + length;
                self.break_connection(agent);
            }
        }
    }

    /// From here on nothing goes wrong any more.
    pub(crate) fn calm_down(&mut self) {
        note!(self, "from here on nothing goes wrong");
        self.is_calm = true;
        self.plan.weather = Weather { delay_max: 2 * MILLI, ..Weather::default() };
        self.plan.push_loss = 0;
        self.plan.ambush = false;
        self.deposed_ends();
        self.server.crash_in = None;
        self.server.slow_until = 0;
        self.server.full_until = 0;
        self.server.breaks = false;
        self.mend_network();
        self.clean_up();
        self.stock_all();
        for agent in 0..self.hosts.len() {
            self.hosts[agent].crash_in = None;
            // An upgrade: what only such agents are left for must not wait for ever.
            (self.hosts[agent].simple, self.hosts[agent].plain) = (false, false);
            self.hosts[agent].isolated_until = 0;
            if self.hosts[agent].paused {
                self.agent_resumes(agent);
            }
        }
    }

    /// How often a message arrives.
    pub(crate) fn copies(&mut self) -> usize {
        let weather = &self.plan.weather;
        if self.dice.chance(weather.drop) {
            note!(self, "a message is lost");
            return 0;
        }
        1 + usize::from(self.dice.chance(weather.duplicate))
    }

    pub(crate) fn delay(&mut self) -> Nanos {
        if self.dice.chance(self.plan.weather.stall) {
            return self.dice.within(MILLI..=3 * SECOND);
        }
        self.dice.skewed(50 * MICRO..=self.plan.weather.delay_max)
    }

    /// The agent is gone, and its supervisor ends everything that it ran.
    pub(crate) fn end_tree(&mut self, agent: usize) {
        if let Some(run) = self.hosts[agent].run.take()
            && run.is_alive()
        {
            self.model.run_died(run.number, &self.server.disk);
            self.model.run_over(run.number);
        }
    }
}
