//! The supervisor of a service: when each process is started, when it is started again, and in which order processes are
//! stopped.
//!
//! | stage | begins | ends |
//! |---|---|---|
//! | starting: the controller first, then all agents | with [`Plan::new`] | when all are ready, or one has ended, or the time limit has passed |
//! | serving: a process that ends is restarted after a pause; [`Plan::handle_renew`] replaces all of them | when all are ready, or with [`Plan::adopt`] | with [`Plan::handle_stop`] |
//! | stopping: the agents first, then the controller | with [`Plan::handle_stop`], or when the start has failed | when no process is left |
//!
//! No process is started while orphans of a dead process may be alive.

mod lending;
mod living;
mod renewal;
mod slot;
mod stop;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::{Mono, Role};

use lending::Lending;
pub use living::Living;
pub use renewal::Progress;
use renewal::Renewal;
use slot::Slot;
use stop::Stop;

/// Pause before orphans that are still alive are signalled again; they are given up after [`ORPHANS_MAX`].
const ORPHANS_AGAIN: Duration = Duration::from_millis(100);

/// A process that survives SIGKILL hangs in the kernel or belongs to another user. The agent that left it must not wait forever.
const ORPHANS_MAX: Duration = Duration::from_secs(5);

/// An instruction to the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Effect {
    /// Start this process, and call `handle_ended` if that fails.
    Start(Role),
    /// Ask this process to end.
    Terminate(Role),
    /// End this process.
    Kill(Role),
    /// Ask this process to make room for the present program. An agent ends when it has no task. A controller becomes that program and
    /// reports again that it is ready, or ends.
    Retire(Role),
    /// Note the progress of the renewal, or its end.
    NoteRenewal,
    /// The program under trial in the controller does not work, for this reason: start the earlier one from now on.
    Reject(String),
    /// The program under trial in the controller works.
    Proven,
    /// Kill this process: the lease of its run has expired, and it has not ended the run itself.
    Fence(Role),
    /// Kill all orphans of a dead process, and call `handle_orphans_gone` when none is left.
    EndOrphans,
    /// Announce that the service is up.
    Announce,
    /// Exit: no process is left. With a reason if the start failed.
    Quit(Option<String>),
}

/// The reason for a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The time limit for the start of the whole service has passed.
    Start,
    /// The time limit for processes to end after a request has passed.
    Stop,
    /// Orphans of a dead process must be signalled again, or given up.
    Orphans,
    /// The time limit for a controller that is being replaced has passed, or that of the trial of a program.
    Renewal,
    /// The pause before this process is started again has passed.
    Restart(Role),
    /// The lease of this agent's run has expired.
    Lease(Role),
    /// The slot of a waiting task's agent is lent.
    Lend,
}

/// Time limits of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Time limit for the start of the whole service.
    pub start_max: Duration,
    /// Time limit for the end of a process after a request.
    pub stop_max: Duration,
}

#[derive(Debug)]
enum Stage {
    /// Starting: the controller first, then all agents.
    Starting { until: Mono },
    /// Serving: a process that ends is started again.
    Serving,
    /// Stopping: the agents first, then the controller.
    Stopping(Stop),
    /// No process is left.
    Gone,
}

/// The decisions of one supervisor.
#[derive(Debug)]
pub struct Plan {
    times: Times,
    stage: Stage,
    slots: BTreeMap<Role, Slot>,
    renewal: Option<Renewal>,
    lending: Lending,
    /// Set while orphans of a dead process may exist.
    orphans: Option<Orphans>,
    /// Why the start failed.
    failure: Option<String>,
    effects: VecDeque<Effect>,
}

#[derive(Debug)]
struct Orphans {
    again: Mono,
    give_up: Mono,
}

impl Plan {
    /// A plan for a controller and `agents` agents; it starts the controller.
    #[must_use]
    pub fn new(now: Mono, agents: u16, times: Times) -> Self {
        let mut plan = Self::of(now, std::iter::once(Role::Controller).chain((1..=agents).map(Role::Agent)), times);
        plan.start(now, Role::Controller);
        plan
    }

    /// A plan for `agents` agents of a controller elsewhere; it starts them.
    #[must_use]
    pub fn of_agents(now: Mono, agents: u16, times: Times) -> Self {
        let mut plan = Self::of(now, (1..=agents).map(Role::Agent), times);
        for agent in plan.agents() {
            plan.start(now, agent);
        }
        plan
    }

    fn of(now: Mono, roles: impl Iterator<Item = Role>, times: Times) -> Self {
        Self {
            times,
            stage: Stage::Starting { until: now + times.start_max },
            slots: roles.map(|role| (role, Slot::default())).collect(),
            renewal: None,
            lending: Lending::default(),
            orphans: None,
            failure: None,
            effects: VecDeque::new(),
        }
    }

    /// A process has reported that it is ready.
    pub fn handle_ready(&mut self, now: Mono, role: Role) {
        let Some(slot) = self.slots.get_mut(&role) else { return };
        slot.set_ready();
        self.return_ready(role);
        if !matches!(self.stage, Stage::Starting { .. }) {
            return self.note_renewed(now, role);
        }
        if role == Role::Controller {
            for agent in self.agents() {
                self.start(now, agent);
            }
        }
        if self.slots.values().all(Slot::is_ready) {
            self.stage = Stage::Serving;
            self.effects.push_back(Effect::Announce);
        }
    }

    /// A process has ended, or could not be started.
    pub fn handle_ended(&mut self, now: Mono, role: Role, reason: &str) {
        let Some(slot) = self.slots.get_mut(&role) else { return };
        let renewed = self.renewal.as_ref().is_some_and(|renewal| renewal.awaits_end_of(role));
        match self.stage {
            Stage::Serving if renewed => slot.end_for_successor(now),
            Stage::Serving => slot.end(now, true),
            Stage::Starting { .. } | Stage::Stopping(_) | Stage::Gone => slot.end(now, false),
        }
        self.forget_lent(role);
        if role == Role::Controller {
            self.reject_trial(reason);
        }
        self.orphans.get_or_insert(Orphans { again: now + ORPHANS_AGAIN, give_up: now + ORPHANS_MAX });
        self.end_orphans();
        if matches!(self.stage, Stage::Starting { .. }) {
            self.fail(now, format!("{role} {reason}"));
        }
    }

    /// An agent reports when the lease of its run finally ends, or that it holds none. If it reports nothing new before that moment, it
    /// is killed, because its run must not continue.
    pub fn handle_lease(&mut self, role: Role, end: Option<Mono>) {
        if let Some(slot) = self.slots.get_mut(&role) {
            slot.set_lease(end);
        }
    }

    /// No orphan of a dead process is alive.
    pub fn handle_orphans_gone(&mut self, now: Mono) {
        self.orphans = None;
        self.start_due(now);
        self.stop_next(now);
    }

    /// Whether the plan waits for [`Self::handle_orphans_gone`].
    #[must_use]
    pub const fn has_orphans(&self) -> bool {
        self.orphans.is_some()
    }

    /// Sets the number of agents. Missing agents start; those with higher numbers end as soon as they have no task. Returns `false` and
    /// does nothing unless the service is up.
    pub fn handle_agents(&mut self, now: Mono, agents: u16) -> bool {
        if !matches!(self.stage, Stage::Serving) {
            return false;
        }
        for role in (1..=agents).map(Role::Agent) {
            self.keep(role);
            self.slots.entry(role).or_default();
            self.start_missing(now, role);
        }
        let is_above = |role: &Role| *role > Role::Agent(agents) && *role <= Role::Agent(Role::LENT_FROM);
        for role in self.agents().into_iter().filter(is_above) {
            if !self.is_returning(role) {
                self.give_back(role);
            }
        }
        true
    }

    /// Whether the service is up and all of its processes are ready, apart from agents that are about to end.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let is_done = |(role, slot): (&Role, &Slot)| slot.is_ready() || self.is_returning(*role);
        matches!(self.stage, Stage::Serving) && self.slots.iter().all(is_done)
    }

    /// Whether this process has reported that it is ready.
    #[must_use]
    pub fn is_ready(&self, role: Role) -> bool {
        self.slots.get(&role).is_some_and(Slot::is_ready)
    }

    /// Stops the service. A second call kills what is left at once.
    pub fn handle_stop(&mut self, now: Mono) {
        match &mut self.stage {
            Stage::Starting { .. } => self.fail(now, "the service was stopped before it was up".to_owned()),
            Stage::Serving => self.stop(now),
            Stage::Stopping(stop) => stop.end_all(&self.slots, &mut self.effects),
            Stage::Gone => {}
        }
    }

    /// A deadline has passed.
    pub fn handle_timeout(&mut self, now: Mono) {
        for (role, slot) in &mut self.slots {
            if slot.take_lease_that_is_over(now) {
                self.effects.push_back(Effect::Fence(*role));
            }
        }
        if let Some(orphans) = &mut self.orphans {
            if orphans.give_up <= now {
                return self.handle_orphans_gone(now);
            }
            if orphans.again <= now {
                orphans.again = now + ORPHANS_AGAIN;
                self.end_orphans();
            }
        }
        self.start_due(now);
        self.lend_due(now);
        self.end_late_controller(now);
        match &mut self.stage {
            Stage::Starting { until } if *until <= now => {
                let missing = self.slots.iter().filter(|(_, slot)| !slot.is_ready()).map(|(role, _)| role.to_string());
                let seconds = self.times.start_max.as_secs();
                let sentence = format!(
                    "the service is not up after {seconds} s; missing: {}",
                    missing.collect::<Vec<_>>().join(", ")
                );
                self.fail(now, sentence);
            }
            Stage::Stopping(stop) if stop.is_over(now) => stop.end_late(&self.slots, &mut self.effects),
            Stage::Starting { .. } | Stage::Serving | Stage::Stopping(_) | Stage::Gone => {}
        }
    }

    /// The time of the next call of [`Self::handle_timeout`], and its reason.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Mono, Timer)> {
        let stage = match &self.stage {
            Stage::Starting { until } => Some((*until, Timer::Start)),
            Stage::Stopping(stop) => stop.until().map(|until| (until, Timer::Stop)),
            Stage::Serving | Stage::Gone => None,
        };
        let restart = |(role, slot): (&Role, &Slot)| Some((slot.pause_until()?, Timer::Restart(*role)));
        let next = match &self.orphans {
            Some(orphans) => Some((orphans.again.min(orphans.give_up), Timer::Orphans)),
            // Starts that are due wait until the orphans are gone.
            None => self.slots.iter().filter_map(restart).min(),
        };
        let lease = |(role, slot): (&Role, &Slot)| Some((slot.lease()?, Timer::Lease(*role)));
        let lease = self.slots.iter().filter_map(lease).min();
        let renewal = self.renewal.as_ref().and_then(Renewal::until).map(|until| (until, Timer::Renewal));
        let may_lend = matches!(self.stage, Stage::Serving) && self.orphans.is_none();
        let lend = may_lend.then(|| self.lending.poll_timeout(&self.slots)).flatten().map(|at| (at, Timer::Lend));
        stage.into_iter().chain(next).chain(lease).chain(renewal).chain(lend).min()
    }

    /// The next effect.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// One effect for all processes that have ended in one turn.
    fn end_orphans(&mut self) {
        if !self.effects.contains(&Effect::EndOrphans) {
            self.effects.push_back(Effect::EndOrphans);
        }
    }

    fn agents(&self) -> Vec<Role> {
        self.slots.keys().copied().filter(|role| *role != Role::Controller).collect()
    }

    fn start(&mut self, now: Mono, role: Role) {
        if let Some(slot) = self.slots.get_mut(&role)
            && slot.start(now)
        {
            self.effects.push_back(Effect::Start(role));
        }
    }

    /// Starts a process that is not running yet. One in its restart pause is started when the pause ends.
    fn start_missing(&mut self, now: Mono, role: Role) {
        if self.slots.get(&role).is_some_and(|slot| slot.pause_until().is_none()) {
            self.start(now, role);
        }
    }

    fn start_due(&mut self, now: Mono) {
        // The remains of a dead agent may still use its work folder.
        if self.orphans.is_some() {
            return;
        }
        let due = self.slots.iter().filter(|(_, slot)| slot.pause_until().is_some_and(|until| until <= now));
        for role in due.map(|(role, _)| *role).collect::<Vec<_>>() {
            self.start(now, role);
        }
    }

    fn fail(&mut self, now: Mono, reason: String) {
        self.failure.get_or_insert(reason);
        self.stop(now);
    }

    fn stop(&mut self, now: Mono) {
        self.renewal = None;
        for slot in self.slots.values_mut() {
            slot.stay_down();
        }
        self.stage = Stage::Stopping(Stop::agents(now + self.times.stop_max, &self.slots, &mut self.effects));
        self.stop_next(now);
    }

    /// Continues the stop when the first group has ended.
    fn stop_next(&mut self, now: Mono) {
        let Stage::Stopping(stop) = &mut self.stage else { return };
        if self.orphans.is_some() {
            return;
        }
        if !stop.next(now + self.times.stop_max, &self.slots, &mut self.effects) {
            return;
        }
        self.stage = Stage::Gone;
        self.effects.push_back(Effect::Quit(self.failure.take()));
    }

    /// Checks every invariant.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn sanity_check(&self) {
        let running = |role| self.slots.get(role).is_some_and(Slot::is_running);
        if matches!(self.stage, Stage::Gone) {
            assert!(!self.slots.keys().any(running), "gone, but something runs: {self:?}");
        }
        let pausing = self.slots.values().any(|slot| slot.pause_until().is_some());
        assert!(!pausing || matches!(self.stage, Stage::Serving), "processes start again only while serving: {self:?}");
        assert!(self.renewal.is_none() || matches!(self.stage, Stage::Serving), "renewal while not serving: {self:?}");
        assert!(
            self.poll_timeout().is_some() || matches!(self.stage, Stage::Serving | Stage::Stopping(_) | Stage::Gone)
        );
    }
}

#[cfg(test)]
mod tests;
