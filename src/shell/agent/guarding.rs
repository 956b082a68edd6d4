//! An agent that has no supervisor looks after its guard: started first, started again when it is gone, released last.

use std::os::fd::AsFd;
use std::time::Duration;

use super::process;
use crate::shell::clock;
use crate::shell::guard::{Guard, GuardError, GuardPlan};
use crate::types::Mono;

/// Between two starts at the least, so that a guard that cannot live costs little.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// The guard of an agent, or none for one that has a supervisor.
pub(super) struct Guarding {
    plan: Option<GuardPlan>,
    guard: Option<Guard>,
    started: Mono,
}

impl Guarding {
    /// Starts the guard. Call it before the agent becomes a subreaper. What goes wrong does not stop the agent, because the
    /// next start of any agent does what the guard would have done: it is said and tried again.
    pub(super) fn start(plan: Option<GuardPlan>) -> Self {
        // The kernel ends everything in a pid namespace whose first process ends, and that one adopts every orphan.
        let plan = plan.filter(|_| std::process::id() != 1);
        let guard = plan.as_ref().and_then(|plan| said(plan.start()));
        Self { plan, guard, started: clock::now().mono }
    }

    /// Readable when the guard is gone.
    pub(super) fn guard(&self) -> Option<&impl AsFd> {
        self.guard.as_ref()
    }

    /// Replaces a guard that was killed; while a run is on, that waits.
    pub(super) fn tend(&mut self, now: Mono, is_idle: bool) {
        let Some(plan) = &self.plan else { return };
        if self.guard.take_if(|guard| guard.is_gone()).is_some() {
            log::warn!("the guard of this agent was killed; it gets another one before its next task");
        }
        if self.guard.is_none() && is_idle && now >= self.started + RESTART_PAUSE {
            self.started = now;
            match process::without_adoption(|| plan.start()) {
                Ok(started) => self.guard = said(started),
                Err(error) => log::error!("cannot start a guard: {error}"),
            }
        }
    }

    /// The agent leaves nothing behind.
    pub(super) fn release(self) {
        if let Some(guard) = self.guard {
            guard.release();
        }
    }
}

fn said(started: Result<Guard, GuardError>) -> Option<Guard> {
    started
        .inspect_err(|error| log::error!("{error}; what this agent leaves if it is killed stays until the next start"))
        .ok()
}
