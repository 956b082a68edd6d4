//! How one plan continues another with the same processes, after a supervisor has become a new program in its own
//! process.

use super::{Plan, Role, Slot, Stage, Times};
use base::Mono;

/// A running process, handed from one plan to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Living {
    /// Its role.
    pub role: Role,
    /// Whether it has reported that it is ready.
    pub ready: bool,
    /// When the lease of its run finally ends, if it has a run.
    pub lease: Option<Mono>,
}

impl Plan {
    /// A plan for a service with this many agents that continues another plan while it serves. The `living` processes run already.
    #[must_use]
    pub fn adopt(now: Mono, agents: u16, has_controller: bool, living: &[Living], times: Times) -> Self {
        let controller = has_controller.then_some(Role::Controller);
        let roles = controller.into_iter().chain((1..=agents).map(Role::Agent));
        let mut plan = Self { stage: Stage::Serving, ..Self::of(now, roles, times) };
        for Living { role, ready, lease } in living {
            // A number above those of the plan means an extra agent for a lent slot. The lender asks again if its task still waits.
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

    /// The running processes, if another plan may continue this one: the service must be up, and no dead process may have left orphans.
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
