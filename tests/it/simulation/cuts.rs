//! Cuts of the network: what a seed plans, and that a cut of the controller costs no run.
//!
//! A cut delays messages in one direction or both, as TCP does, and lets no new connection come about. What a connection holds that
//! outlives the cut arrives then; agents without an answer give theirs up before.

use base::{PastRound, RoundEnd, TaskRecord};

use crate::simulation::dice::{Dice, MILLI, Nanos};
use crate::simulation::plan::{Fault, HEARTBEAT, Plan};
use crate::simulation::world::World;

/// The directions of a cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Directions {
    /// To the controller.
    pub(crate) up: bool,
    /// From the controller.
    pub(crate) down: bool,
}

impl Directions {
    fn new(dice: &mut Dice) -> Self {
        let (up, down) = [(true, true), (true, true), (true, false), (false, true)][dice.index(4)];
        Self { up, down }
    }
}

/// The cuts of a seed. Its dice are its own, so that a seed without cuts runs as if there were none. Where nothing else goes wrong,
/// they are of the controller alone.
pub(crate) fn plan(seed: u64, peaceful: bool, agents: usize, calm: Nanos) -> Vec<(Nanos, Fault)> {
    let mut dice = Dice::new(seed ^ 0x0063_7574);
    if !dice.chance(if peaceful { 350 } else { 300 }) {
        return Vec::new();
    }
    let cuts = (0..1 + dice.index(3)).map(|_| {
        let directions = Directions::new(&mut dice);
        let length =
            if dice.chance(300) { dice.skewed(MILLI..=2 * HEARTBEAT) } else { dice.within(HEARTBEAT..=10 * HEARTBEAT) };
        let is_of_all = peaceful || dice.chance(500);
        let agent = (!is_of_all).then(|| dice.index(agents));
        (dice.within(0..=calm), Fault::NetworkCut { agent, directions, length })
    });
    cuts.collect()
}

impl Plan {
    /// Whether nothing goes wrong but that the controller is cut off from all its agents.
    pub(crate) fn only_cuts_the_controller(&self) -> bool {
        let is_one = |fault: &Fault| matches!(fault, Fault::NetworkCut { agent: None, .. });
        !self.faults.is_empty() && self.faults.iter().all(|(_, fault)| is_one(fault)) && self.is_gentle_but_for_cuts()
    }
}

impl World {
    pub(crate) fn cut_network(&mut self, agent: Option<usize>, directions: Directions, length: Nanos) {
        let agents = agent.map_or(0..self.hosts.len(), |agent| agent..agent + 1);
        if agent.is_none() && self.hosts.len() > 1 && self.model.heard.len() < 2 {
            // The silence of the only agent that the controller knows is that agent's, as far as it can tell.
            self.model.knows_too_few = true;
        }
        for agent in agents {
            let until = self.now + length;
            if directions.up {
                let until = self.end_of_cuts(agent, until, |directions| directions.up);
                let host = &mut self.hosts[agent];
                host.no_way_up_until = host.no_way_up_until.max(until);
            }
            if directions.down {
                let until = self.end_of_cuts(agent, until, |directions| directions.down);
                let host = &mut self.hosts[agent];
                host.no_way_down_until = host.no_way_down_until.max(until);
            }
        }
    }

    /// The end of a cut that others follow without a pause. Nothing that it holds passes between them.
    fn end_of_cuts(&self, agent: usize, mut until: Nanos, is_cut: impl Fn(Directions) -> bool) -> Nanos {
        let cuts = || {
            self.plan.faults.iter().filter_map(|(at, fault)| match fault {
                Fault::NetworkCut { agent: one, directions, length }
                    if one.is_none_or(|one| one == agent) && is_cut(*directions) =>
                {
                    Some((World::BEGINS_AT + at, length))
                }
                _ => None,
            })
        };
        while let Some((at, length)) = cuts().find(|(at, length)| *at <= until && until < at + **length) {
            until = at + length;
        }
        until
    }

    pub(crate) fn mend_network(&mut self) {
        for host in &mut self.hosts {
            (host.no_way_up_until, host.no_way_down_until) = (0, 0);
        }
    }

    /// A cut of the controller costs no run: its agents come back before another round begins. A task that allows no loss, or is to be
    /// ended, ends with the silence, and an exclusive run with its lease.
    pub(crate) fn check_cuts(&self) {
        let counts = |record: &&TaskRecord| {
            let policy = &record.policy;
            // Without numbers in its heartbeats, nothing tells an APPLY that is late from a new one.
            let is_of_simple = |past: &PastRound| {
                let agent = past.assignment.as_ref().map(|run| &run.agent);
                past.end == RoundEnd::Lost
                    && (0..self.hosts.len()).any(|host| self.plan.simple[host] && agent == Some(&self.hosts[host].name))
            };
            !policy.needs.exclusive
                && policy.losses_max > 0
                && policy.timeout.is_none()
                && record.kill.is_none()
                && !record.past.iter().any(is_of_simple)
        };
        if self.plan.only_cuts_the_controller() && !self.model.knows_too_few {
            for record in self.server.disk.values().filter(counts) {
                assert_eq!(
                    record.counts.losses, 0,
                    "a cut of the controller has cost a run of {}: {record:?}",
                    record.id
                );
            }
        }
    }
}
