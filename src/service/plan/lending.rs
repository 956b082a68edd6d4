//! Lent slots: an agent whose task waits for other tasks does nothing, and those tasks may need its slot. So one more agent is started
//! for the time of the wait.
//!
//! | state of an agent | event | next |
//! |---|---|---|
//! | works | [`Plan::handle_waits`] | waits; its slot is lent after [`LEND_AFTER`], if there is room |
//! | waits | its task no longer waits | works |
//! | waits, and its slot is lent | its task no longer waits | works; the extra agent ends when it has no task |
//!
//! The task of an extra agent may wait too; then that agent lends its own slot. An agent that a user removes ends in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Effect, Plan, Role, Slot, Stage};
use base::Mono;

/// Most waits are shorter than this, and an extra agent is started only for the others.
pub(super) const LEND_AFTER: Duration = Duration::from_millis(300);

/// The slots that are lent by the agents of a plan.
#[derive(Debug, Default)]
pub(super) struct Lending {
    /// Maximum number of extra agents.
    max: u16,
    /// Agents whose tasks wait, and when their slots are lent.
    waiting: BTreeMap<Role, Mono>,
    /// Agents whose slots are lent, each with the extra agent in its place.
    lent: BTreeMap<Role, Role>,
    /// Agents that end when they have no task, and are not started again.
    returning: BTreeSet<Role>,
}

impl Lending {
    pub(super) fn poll_timeout(&self, slots: &BTreeMap<Role, Slot>) -> Option<Mono> {
        self.waiting.values().copied().min().filter(|_| self.free(slots).is_some())
    }

    /// An unused number for an extra agent; `None` if the maximum is reached.
    fn free(&self, slots: &BTreeMap<Role, Slot>) -> Option<Role> {
        (1..=self.max).map(|number| Role::Agent(Role::LENT_FROM + number)).find(|role| !slots.contains_key(role))
    }
}

impl Plan {
    /// The same plan, with at most this many slots lent at a time.
    #[must_use]
    pub fn lending(mut self, max: u16) -> Self {
        self.lending.max = max;
        self
    }

    /// The task of an agent begins to wait for other tasks, or no longer does.
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

    /// Asks an agent that is no longer needed to end when it has no task.
    pub(super) fn give_back(&mut self, lent: Role) {
        self.lending.returning.insert(lent);
        match self.slots.get(&lent) {
            Some(slot) if slot.is_ready() => self.effects.push_back(Effect::Retire(lent)),
            // It is asked once it is ready: before that, the signal would kill it.
            Some(slot) if slot.is_running() => {}
            _ => self.forget_lent(lent),
        }
    }

    /// An agent that was about to end is needed again. If it was already asked to end, it is restarted.
    pub(super) fn keep(&mut self, role: Role) {
        self.lending.returning.remove(&role);
    }

    /// Whether an agent ends when it has no task, and is not started again.
    pub(super) fn is_returning(&self, role: Role) -> bool {
        self.lending.returning.contains(&role)
    }

    /// An agent has become ready that may no longer be needed.
    pub(super) fn return_ready(&mut self, role: Role) {
        if self.lending.returning.contains(&role) {
            self.effects.push_back(Effect::Retire(role));
        }
    }

    /// A process has ended: an agent that is no longer needed is not restarted.
    pub(super) fn forget_lent(&mut self, role: Role) {
        if self.lending.returning.remove(&role) {
            self.slots.remove(&role);
            self.lending.waiting.remove(&role);
            self.renew_without(role);
        }
    }
}
