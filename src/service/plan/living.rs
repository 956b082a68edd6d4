//! A plan that continues another one, with the same processes: that of the next program in the process of a supervisor.

use super::{Plan, Role, Slot, Stage, Times};
use base::Mono;

/// A process that exists, for a plan that continues another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Living {
    /// Its role.
    pub role: Role,
    /// Whether it has reported that it is ready.
    pub ready: bool,
    /// The final end of the lease of its run, if it has one.
    pub lease: Option<Mono>,
}

impl Plan {
    /// A plan that continues another one, of a service with this many agents, while it serves. The `living` processes exist
    /// already.
    #[must_use]
    pub fn adopt(now: Mono, agents: u16, has_controller: bool, living: &[Living], times: Times) -> Self {
        let controller = has_controller.then_some(Role::Controller);
        let roles = controller.into_iter().chain((1..=agents).map(Role::Agent));
        let mut plan = Self { stage: Stage::Serving, ..Self::of(now, roles, times) };
        for Living { role, ready, lease } in living {
            // An agent whose number is above those of the plan was started for another one. That one asks again if it still waits.
            if *role > Role::Agent(agents) {
                plan.slots.insert(*role, Slot::default());
            }
            if let Some(slot) = plan.slots.get_mut(role) {
                slot.start(now);
                if *ready {
                    slot.set_ready();
                }
                slot.set_lease(*lease);
            }
        }
        for role in plan.slots.keys().copied().collect::<Vec<_>>() {
            plan.start(now, role);
            if role > Role::Agent(agents) {
                plan.give_back(role);
            }
        }
        plan
    }

    /// The processes that exist, if another plan may continue this one: while it serves, and no process is left behind by a
    /// dead one.
    #[must_use]
    pub fn living(&self) -> Option<Vec<Living>> {
        if !matches!(self.stage, Stage::Serving) || self.orphans.is_some() {
            return None;
        }
        let living = self.slots.iter().filter(|(_, slot)| slot.is_running());
        let living = living.map(|(role, slot)| Living { role: *role, ready: slot.is_ready(), lease: slot.lease() });
        Some(living.collect())
    }
}
