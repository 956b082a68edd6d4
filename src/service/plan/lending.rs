//! Slots that are lent: an agent whose task waits for other tasks does nothing, and the tasks that it waits for may need its slot. So
//! one more agent is started, for as long as it waits.
//!
//! | state of an agent | event | next |
//! |---|---|---|
//! | works | [`Plan::handle_waits`] | waits; its slot is lent after [`LEND_AFTER`], if there is room |
//! | waits | it does not wait any more | works |
//! | waits, and its slot is lent | it does not wait any more | works; the other agent ends when it has no task |
//!
//! An agent that was started so may have a task that waits, too, and then lends its own slot. An agent that a person takes away ends in
//! the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Effect, Plan, Role, Slot, Stage};
use base::Mono;

/// Most waits are short: an agent is started for one that is not.
pub(super) const LEND_AFTER: Duration = Duration::from_millis(300);

/// The slots that are lent by the agents of a plan.
#[derive(Debug, Default)]
pub(super) struct Lending {
    /// Maximum number of agents that are started so.
    max: u16,
    /// Agents that wait, and when their slots are lent.
    waiting: BTreeMap<Role, Mono>,
    /// Agents whose slots are lent, each with the agent that was started.
    lent: BTreeMap<Role, Role>,
    /// Agents that end when they have no task, and are not started again.
    returning: BTreeSet<Role>,
}

impl Lending {
    pub(super) fn poll_timeout(&self, slots: &BTreeMap<Role, Slot>) -> Option<Mono> {
        self.waiting.values().copied().min().filter(|_| self.free(slots).is_some())
    }

    /// An agent that may be started.
    fn free(&self, slots: &BTreeMap<Role, Slot>) -> Option<Role> {
        (1..=self.max).map(|number| Role::Agent(Role::LENT_FROM + number)).find(|role| !slots.contains_key(role))
    }
}

impl Plan {
    /// The same plan, in which so many slots may be lent at a time.
    #[must_use]
    pub fn lending(mut self, max: u16) -> Self {
        self.lending.max = max;
        self
    }

    /// The task of an agent waits for other tasks from now on, or not any more.
    pub fn handle_waits(&mut self, now: Mono, lender: Role, waits: bool) {
        if waits {
            if self.slots.contains_key(&lender) && !self.lending.lent.contains_key(&lender) {
                self.lending.waiting.insert(lender, now + LEND_AFTER);
            }
            return;
        }
        self.lending.waiting.remove(&lender);
        if let Some(lent) = self.lending.lent.remove(&lender) {
            self.give_back(lent);
        }
    }

    /// Lends the slots that are due.
    pub(super) fn lend_due(&mut self, now: Mono) {
        if !matches!(self.stage, Stage::Serving) || self.orphans.is_some() {
            return;
        }
        let due = |lending: &Lending| {
            lending.waiting.iter().filter(|(_, due)| **due <= now).min_by_key(|(_, due)| **due).map(|(role, _)| *role)
        };
        while let (Some(lender), Some(lent)) = (due(&self.lending), self.lending.free(&self.slots)) {
            self.lending.waiting.remove(&lender);
            self.lending.lent.insert(lender, lent);
            self.slots.insert(lent, Slot::default());
            self.start(now, lent);
        }
    }

    /// Asks an agent that was started for another one to end when it has no task.
    pub(super) fn give_back(&mut self, lent: Role) {
        self.lending.returning.insert(lent);
        match self.slots.get(&lent) {
            Some(slot) if slot.is_ready() => self.effects.push_back(Effect::Retire(lent)),
            // It is asked when it is ready: before, the signal would be its death.
            Some(slot) if slot.is_running() => {}
            _ => self.forget_lent(lent),
        }
    }

    /// An agent that was to end when it has no task is needed again. If it was asked already, it is started anew.
    pub(super) fn keep(&mut self, role: Role) {
        self.lending.returning.remove(&role);
    }

    /// Whether an agent ends when it has no task, and is not started again.
    pub(super) fn is_returning(&self, role: Role) -> bool {
        self.lending.returning.contains(&role)
    }

    /// An agent is ready that may not be needed any more.
    pub(super) fn return_ready(&mut self, role: Role) {
        if self.lending.returning.contains(&role) {
            self.effects.push_back(Effect::Retire(role));
        }
    }

    /// A process has ended: an agent that is not needed any more is not started again.
    pub(super) fn forget_lent(&mut self, role: Role) {
        if self.lending.returning.remove(&role) {
            self.slots.remove(&role);
            self.lending.waiting.remove(&role);
            self.renew_without(role);
        }
    }
}
