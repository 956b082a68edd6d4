//! The replacement of every process by one of the present program: the controller first, then each agent as soon as it has
//! no task. Clients wait until the new controller is ready; a running task does not notice.
//!
//! Before the supervisor becomes a new program, its controller tries that program: while the supervisor is still the old one, it can go
//! back.
//!
//! | state | event | next |
//! |---|---|---|
//! | no renewal | [`Plan::handle_try`] | the trial: the controller is asked to become another program |
//! | the trial | the controller is ready | the same state, until it has been ready for [`PROOF`] |
//! | the trial | it has been ready that long | no renewal; [`Effect::Proven`] |
//! | the trial | it is not ready in time | the same state, and it is killed |
//! | the trial | the controller has ended | no renewal; [`Effect::Reject`], and the controller is restarted |
//! | no renewal | [`Plan::handle_renew`] | the controller, which is asked to become the present program; without one, the agents |
//! | no renewal | [`Plan::handle_proven`] | the agents |
//! | the controller | it has ended instead | the same state, and it is started |
//! | the controller | the new one is ready | the agents that run: each is asked to end when it has no task |
//! | the controller | `stop_max` has passed | the same state, and the old one is killed |
//! | the agents | a new one is ready | the agents without it; no renewal after the last one |
//! | any | [`Plan::handle_stop`] | no renewal |

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Effect, Plan, Role, Stage};
use base::Mono;

/// A controller that stays ready for this long is taken to work. `llts restart` takes that much longer.
pub(super) const PROOF: Duration = Duration::from_secs(3);

/// A renewal in progress.
#[derive(Debug)]
pub(super) enum Renewal {
    /// The controller was asked to become another program. It is killed at `until` if it is not ready; `None` after that.
    Trial { until: Option<Mono> },
    /// The controller has become another program and is ready. At this time the program is taken to work.
    Proving { until: Mono },
    /// The controller was asked to make room, and is killed at this time; `None` after that.
    Controller { until: Option<Mono> },
    /// The agents whose successors are not ready.
    Agents(BTreeSet<Role>),
}

/// The state of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Whether the controller is new, or the service has none.
    pub controller: bool,
    /// Number of agents that are not replaced yet.
    pub agents_left: usize,
}

impl Renewal {
    /// The deadline of the controller.
    pub(super) const fn until(&self) -> Option<Mono> {
        match self {
            Self::Trial { until } | Self::Controller { until } => *until,
            Self::Proving { until } => Some(*until),
            Self::Agents(_) => None,
        }
    }

    /// Whether this process was asked to end.
    pub(super) fn awaits_end_of(&self, role: Role) -> bool {
        match self {
            Self::Trial { .. } | Self::Proving { .. } | Self::Controller { .. } => role == Role::Controller,
            Self::Agents(left) => left.contains(&role),
        }
    }
}

impl Plan {
    /// Asks the controller to try another program. Returns `false` if there is no controller, or the service is not fully up.
    pub fn handle_try(&mut self, now: Mono) -> bool {
        let can = matches!(self.stage, Stage::Serving)
            && self.slots.get(&Role::Controller).is_some_and(super::Slot::is_ready);
        if can {
            self.renewal = Some(Renewal::Trial { until: Some(now + self.times.stop_max + self.times.start_max) });
            self.effects.push_back(Effect::Retire(Role::Controller));
        }
        can
    }

    /// Replaces the agents; the controller already runs the present program.
    pub fn handle_proven(&mut self) {
        if matches!(self.stage, Stage::Serving) {
            self.renew_agents();
        }
    }

    /// Whether a trial is in progress.
    #[must_use]
    pub const fn is_trying(&self) -> bool {
        matches!(self.renewal, Some(Renewal::Trial { .. } | Renewal::Proving { .. }))
    }

    /// The controller has ended: ends a trial.
    pub(super) fn reject_trial(&mut self, reason: &str) {
        let Some(renewal) =
            self.renewal.take_if(|renewal| !matches!(renewal, Renewal::Controller { .. } | Renewal::Agents(_)))
        else {
            return;
        };
        let reason = match renewal {
            Renewal::Trial { until: None } => {
                let seconds = (self.times.stop_max + self.times.start_max).as_secs();
                format!("its controller was not ready after {seconds} s")
            }
            Renewal::Proving { .. } => format!("its controller was ready, but soon ended: it {reason}"),
            _ => format!("its controller {reason}"),
        };
        self.effects.push_back(Effect::Reject(reason));
    }

    /// Replaces every process by a new one. Does nothing unless the service is fully up.
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
            Renewal::Trial { .. } | Renewal::Proving { .. } => return None,
            Renewal::Controller { .. } => Progress { controller: false, agents_left: self.agents().len() },
            Renewal::Agents(left) => Progress { controller: true, agents_left: left.len() },
        })
    }

    /// A new process is ready.
    pub(super) fn note_renewed(&mut self, now: Mono, role: Role) {
        match (&mut self.renewal, role) {
            (Some(renewal @ Renewal::Trial { until: Some(_) }), Role::Controller) => {
                *renewal = Renewal::Proving { until: now + PROOF };
            }
            (Some(Renewal::Controller { .. }), Role::Controller) => self.renew_agents(),
            (Some(Renewal::Agents(_)), Role::Agent(_)) => self.renew_without(role),
            (Some(Renewal::Controller { .. }), Role::Agent(_))
            | (Some(Renewal::Trial { .. } | Renewal::Proving { .. } | Renewal::Agents(_)) | None, _) => {}
        }
    }

    /// An agent needs no successor any more: a new one is ready, or it has ended for good.
    pub(super) fn renew_without(&mut self, role: Role) {
        let Some(Renewal::Agents(left)) = &mut self.renewal else { return };
        if left.remove(&role) {
            self.effects.push_back(Effect::NoteRenewal);
        }
        self.renewal.take_if(|renewal| matches!(renewal, Renewal::Agents(left) if left.is_empty()));
    }

    fn renew_agents(&mut self) {
        // The other agents are about to start, with the present program anyway.
        let running = |role: &Role| self.slots.get(role).is_some_and(super::Slot::is_running);
        let left: BTreeSet<Role> = self.agents().into_iter().filter(running).collect();
        self.effects.extend(left.iter().copied().map(Effect::Retire));
        self.renewal = if left.is_empty() { None } else { Some(Renewal::Agents(left)) };
        self.effects.push_back(Effect::NoteRenewal);
    }

    /// Acts on the deadline of the controller, if it has passed.
    pub(super) fn end_late_controller(&mut self, now: Mono) {
        match &mut self.renewal {
            Some(Renewal::Proving { until }) if *until <= now => {
                self.renewal = None;
                self.effects.push_back(Effect::Proven);
            }
            Some(Renewal::Trial { until } | Renewal::Controller { until }) => {
                if until.take_if(|until| *until <= now).is_some() {
                    self.effects.push_back(Effect::Kill(Role::Controller));
                }
            }
            Some(Renewal::Proving { .. } | Renewal::Agents(_)) | None => {}
        }
    }
}
