//! The supervisor of a service: which process is started when, started again after how long, and stopped in which order.
//!
//! | stage | begins | ends |
//! |---|---|---|
//! | starting: the controller first, then all agents | with [`Plan::new`] | when all are ready, or one has ended, or the time is over |
//! | serving: a process that ends is started again, after a pause | when all are ready | with [`Plan::handle_stop`] |
//! | stopping: the agents first, then the controller | then, or when the start has failed | when nothing is left |
//!
//! Nothing is started while processes that a dead one has left behind may live.

mod slot;
mod stop;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use crate::types::Mono;

use slot::Slot;
use stop::Stop;

/// Orphans that do not end: they are signalled again after this time, and given up after [`ORPHANS_MAX`].
const ORPHANS_AGAIN: Duration = Duration::from_millis(100);

/// A process that SIGKILL does not end hangs in the kernel, or belongs to another user. Its agent must not wait for ever.
const ORPHANS_MAX: Duration = Duration::from_secs(5);

/// A part of the service: one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The controller.
    Controller,
    /// An agent, counted from 1. A restarted one has the number, and so the id, of its predecessor.
    Agent(u16),
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller => f.write_str("controller"),
            Self::Agent(number) => write!(f, "agent-{number}"),
        }
    }
}

/// What the shell must do next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Effect {
    /// Start this process, and say `handle_ended` if that fails.
    Start(Role),
    /// Ask this process to end.
    Terminate(Role),
    /// End this process.
    Kill(Role),
    /// End this process, because the lease of its run is over and it does nothing about it.
    Fence(Role),
    /// End all that a dead process has left behind, and say `handle_orphans_gone` when there is nothing.
    EndOrphans,
    /// Say that the service is up.
    Announce,
    /// Leave: nothing is left. With a reason if the start failed.
    Quit(Option<String>),
}

/// Why the engine wants to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The time for the whole service to come up is over.
    Start,
    /// The time for processes to end by themselves is over.
    Stop,
    /// Processes that a dead one has left behind are signalled again, or given up.
    Orphans,
    /// The pause before this process is started again is over.
    Restart(Role),
    /// The lease of the run of this agent is over.
    Lease(Role),
}

/// Times that a plan keeps to.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// For the whole service to come up.
    pub start_max: Duration,
    /// For a process to end after it was asked to.
    pub stop_max: Duration,
}

#[derive(Debug)]
enum Stage {
    /// Coming up: the controller first, then all agents.
    Starting { until: Mono },
    /// Up: whoever ends is started again.
    Serving,
    /// Going down: the agents first, then the controller.
    Stopping(Stop),
    /// Nothing is left.
    Gone,
}

/// The decisions of one supervisor.
#[derive(Debug)]
pub struct Plan {
    times: Times,
    stage: Stage,
    slots: BTreeMap<Role, Slot>,
    /// Set while a dead process's orphans may be there.
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
            orphans: None,
            failure: None,
            effects: VecDeque::new(),
        }
    }

    /// A process says that it is ready.
    pub fn handle_ready(&mut self, now: Mono, role: Role) {
        let Some(slot) = self.slots.get_mut(&role) else { return };
        slot.set_ready();
        if !matches!(self.stage, Stage::Starting { .. }) {
            return;
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
        let serving = matches!(self.stage, Stage::Serving);
        slot.end(now, serving);
        self.orphans.get_or_insert(Orphans { again: now + ORPHANS_AGAIN, give_up: now + ORPHANS_MAX });
        self.end_orphans();
        if matches!(self.stage, Stage::Starting { .. }) {
            self.fail(now, format!("{role} {reason}"));
        }
    }

    /// An agent says when the lease of its run is over for good, or that there is none. One that has said nothing else by then
    /// is stopped, and its run must not go on.
    pub fn handle_lease(&mut self, role: Role, end: Option<Mono>) {
        if let Some(slot) = self.slots.get_mut(&role) {
            slot.set_lease(end);
        }
    }

    /// Nothing is left of the processes that have ended.
    pub fn handle_orphans_gone(&mut self, now: Mono) {
        self.orphans = None;
        self.start_due(now);
        self.stop_next(now);
    }

    /// Whether [`Self::handle_orphans_gone`] is waited for.
    #[must_use]
    pub const fn has_orphans(&self) -> bool {
        self.orphans.is_some()
    }

    /// The service shall stop. For the second time: at once.
    pub fn handle_stop(&mut self, now: Mono) {
        match &mut self.stage {
            Stage::Starting { .. } => self.fail(now, "the service was stopped before it was up".to_owned()),
            Stage::Serving => self.stop(now),
            Stage::Stopping(stop) => stop.end_all(&self.slots, &mut self.effects),
            Stage::Gone => {}
        }
    }

    /// Time has passed.
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

    /// When [`Self::handle_timeout`] is due, and why.
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
            // What is due starts when the orphans are gone.
            None => self.slots.iter().filter_map(restart).min(),
        };
        let lease = |(role, slot): (&Role, &Slot)| Some((slot.lease()?, Timer::Lease(*role)));
        let lease = self.slots.iter().filter_map(lease).min();
        stage.into_iter().chain(next).chain(lease).min()
    }

    /// What the shell must do next.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Once for all who have ended in one turn.
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

    fn start_due(&mut self, now: Mono) {
        // What a dead agent has left may still hold its work folder.
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
        for slot in self.slots.values_mut() {
            slot.stay_down();
        }
        self.stage = Stage::Stopping(Stop::agents(now + self.times.stop_max, &self.slots, &mut self.effects));
        self.stop_next(now);
    }

    /// Goes on with the stop when those who go first have gone.
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
    /// When one does not hold.
    pub fn sanity_check(&self) {
        let running = |role| self.slots.get(role).is_some_and(Slot::is_running);
        if matches!(self.stage, Stage::Gone) {
            assert!(!self.slots.keys().any(running), "gone, but something runs: {self:?}");
        }
        let pausing = self.slots.values().any(|slot| slot.pause_until().is_some());
        assert!(!pausing || matches!(self.stage, Stage::Serving), "only who serves starts again: {self:?}");
        assert!(
            self.poll_timeout().is_some() || matches!(self.stage, Stage::Serving | Stage::Stopping(_) | Stage::Gone)
        );
    }
}

#[cfg(test)]
mod tests;
