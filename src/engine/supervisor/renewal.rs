//! The replacement of every process by one of the present program: the controller first, then each agent as soon as it has
//! no task. Clients wait until the new controller is ready; a running task does not notice.
//!
//! | state | event | next |
//! |---|---|---|
//! | no renewal | [`Plan::handle_renew`] | the controller, which is asked to become the present program; without one, the agents |
//! | the controller | it has ended instead | the same state, and it is started |
//! | the controller | the new one is ready | the agents that run: each is asked to end when it has no task |
//! | the controller | `stop_max` has passed | the same state, and the old one is killed |
//! | the agents | a new one is ready | the agents without it; no renewal after the last one |
//! | any | [`Plan::handle_stop`] | no renewal |

use std::collections::BTreeSet;

use super::{Effect, Plan, Role, Stage};
use crate::types::Mono;

/// A renewal that has begun.
#[derive(Debug)]
pub(super) enum Renewal {
    /// The controller was asked to make room, and is killed at this time; `None` after that.
    Controller { until: Option<Mono> },
    /// The agents whose successors are not ready.
    Agents(BTreeSet<Role>),
}

/// The state of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Whether the controller is a new process, or none is a part of the service.
    pub controller: bool,
    /// Number of agents whose successors are not ready.
    pub agents_left: usize,
}

impl Renewal {
    /// The deadline of the controller that was asked to end.
    pub(super) const fn until(&self) -> Option<Mono> {
        match self {
            Self::Controller { until } => *until,
            Self::Agents(_) => None,
        }
    }

    /// Whether this process was asked to end.
    pub(super) fn awaits_end_of(&self, role: Role) -> bool {
        match self {
            Self::Controller { .. } => role == Role::Controller,
            Self::Agents(left) => left.contains(&role),
        }
    }
}

impl Plan {
    /// Replaces every process by a new one. Without effect unless all of the service is up.
    pub fn handle_renew(&mut self, now: Mono) {
        if !matches!(self.stage, Stage::Serving) {
            return;
        }
        if !self.slots.contains_key(&Role::Controller) {
            return self.renew_agents();
        }
        self.renewal = Some(Renewal::Controller { until: Some(now + self.times.stop_max) });
        self.effects.push_back(Effect::Retire(Role::Controller));
        self.effects.push_back(Effect::NoteRenewal);
    }

    /// The present renewal.
    #[must_use]
    pub fn renewal(&self) -> Option<Progress> {
        Some(match self.renewal.as_ref()? {
            Renewal::Controller { .. } => Progress { controller: false, agents_left: self.agents().len() },
            Renewal::Agents(left) => Progress { controller: true, agents_left: left.len() },
        })
    }

    /// A new process is ready.
    pub(super) fn note_renewed(&mut self, role: Role) {
        match (&mut self.renewal, role) {
            (Some(Renewal::Controller { .. }), Role::Controller) => self.renew_agents(),
            (Some(Renewal::Agents(left)), Role::Agent(_)) => {
                if left.remove(&role) {
                    self.effects.push_back(Effect::NoteRenewal);
                }
                self.renewal.take_if(|renewal| matches!(renewal, Renewal::Agents(left) if left.is_empty()));
            }
            (Some(Renewal::Controller { .. }), Role::Agent(_)) | (Some(Renewal::Agents(_)) | None, _) => {}
        }
    }

    fn renew_agents(&mut self) {
        // The others are about to be started, with the present program.
        let running = |role: &Role| self.slots.get(role).is_some_and(super::Slot::is_running);
        let left: BTreeSet<Role> = self.agents().into_iter().filter(running).collect();
        self.effects.extend(left.iter().copied().map(Effect::Retire));
        self.renewal = if left.is_empty() { None } else { Some(Renewal::Agents(left)) };
        self.effects.push_back(Effect::NoteRenewal);
    }

    /// Kills a controller that was replaced and does not end.
    pub(super) fn end_late_controller(&mut self, now: Mono) {
        if let Some(Renewal::Controller { until }) = &mut self.renewal
            && until.take_if(|until| *until <= now).is_some()
        {
            self.effects.push_back(Effect::Kill(Role::Controller));
        }
    }
}
