//! The shutdown: the agents first, because they end their tasks and report that to the controller; then the controller.

use std::collections::{BTreeMap, VecDeque};

use super::slot::Slot;
use super::{Effect, Role};
use base::Mono;

#[derive(Debug)]
pub(super) struct Stop {
    step: Step,
    /// When processes that were asked to end are killed; `None` after that.
    until: Option<Mono>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Agents,
    Controller,
}

impl Step {
    const fn concerns(self, role: Role) -> bool {
        matches!((self, role), (Self::Agents, Role::Agent(_)) | (Self::Controller, Role::Controller))
    }
}

impl Stop {
    /// Asks the agents to end.
    pub(super) fn agents(until: Mono, slots: &BTreeMap<Role, Slot>, effects: &mut VecDeque<Effect>) -> Self {
        let step = Step::Agents;
        effects.extend(living(slots).filter(|role| step.concerns(*role)).map(Effect::Terminate));
        Self { step, until: Some(until) }
    }

    pub(super) const fn until(&self) -> Option<Mono> {
        self.until
    }

    pub(super) fn is_over(&self, now: Mono) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Kills the processes that were asked to end and are still there.
    pub(super) fn end_late(&mut self, slots: &BTreeMap<Role, Slot>, effects: &mut VecDeque<Effect>) {
        self.until = None;
        let step = self.step;
        effects.extend(living(slots).filter(|role| step.concerns(*role)).map(Effect::Kill));
    }

    /// Kills every process.
    pub(super) fn end_all(&mut self, slots: &BTreeMap<Role, Slot>, effects: &mut VecDeque<Effect>) {
        self.until = None;
        effects.extend(living(slots).map(Effect::Kill));
    }

    /// Continues with the controller when the agents have ended; `true` when the controller has ended too.
    pub(super) fn next(&mut self, until: Mono, slots: &BTreeMap<Role, Slot>, effects: &mut VecDeque<Effect>) -> bool {
        let step = self.step;
        if living(slots).any(|role| step.concerns(role)) {
            return false;
        }
        if step == Step::Agents && living(slots).next().is_some() {
            *self = Self { step: Step::Controller, until: Some(until) };
            effects.push_back(Effect::Terminate(Role::Controller));
            return false;
        }
        true
    }
}

fn living(slots: &BTreeMap<Role, Slot>) -> impl Iterator<Item = Role> {
    slots.iter().filter(|(_, slot)| slot.is_running()).map(|(role, _)| *role)
}
