//! Changes of tasks by time: the ends of delays, the opening of gates, and limits of runs and tasks.
//!
//! The wall clock may jump, so moments on it are checked again every minute.

use std::sync::Arc;
use std::time::Duration;

use super::transition::{Again, TaskEvent};
use crate::turn::effect::{Record, Timer};
use crate::{Controller, LOOK_INTERVAL};
use base::{KillCause, Mono, Now, RoundEnd, TaskId, TaskState, Wall};

/// The moments that the deadline is set for, stored in their own clocks so that a jump does not change them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    wall: Option<Wall>,
    gate: Option<Mono>,
}

impl Controller {
    /// Sets the deadline for the next event.
    pub(crate) fn plan(&mut self, now: Now) {
        let queue = &self.queue;
        let end = self.tasks.end_before.first().copied().map(|(at, _)| at);
        let plan = Plan { wall: queue.next_delay_end().into_iter().chain(end).min(), gate: queue.gates.next_change() };
        if plan == self.tasks.planned {
            return;
        }
        let wall = plan.wall.map(|at| now.mono + at.since(now.wall));
        match wall.into_iter().chain(plan.gate).min() {
            Some(at) => self.turn.set_timer(Timer::Calendar, at.min(now.mono + LOOK_INTERVAL)),
            None => self.turn.clear_timer(&Timer::Calendar),
        }
        self.tasks.planned = plan;
    }

    /// Does everything that is due.
    pub(crate) fn look_at_calendar(&mut self, now: Now) {
        self.tasks.planned = Plan::default();
        self.catch_up(now);
    }

    /// Opens the gates and ends the tasks whose time has come. It also runs before each choice of a task: a newcomer does
    /// not overtake waiting tasks, and no task starts after its end, wherever the clock has jumped.
    pub(crate) fn catch_up(&mut self, now: Now) {
        let gates = self.queue.gates.take_due(now.mono);
        for gate in &gates {
            if let Some(settings) = self.queue.gates.reopen(now, gate) {
                if gate.is_of_service() {
                    self.tell_pause(settings.closed_until);
                }
                self.turn.store(Record::Gate(gate.clone(), settings));
            }
        }
        self.queue.refresh_gated(now, gates.iter());
        while let Some(end) = self.tasks.end_before.first().copied().filter(|(at, _)| *at <= now.wall) {
            self.tasks.end_before.remove(&end);
            self.kill(now, end.1, &KillCause::Expired);
        }
    }

    /// An agent has reported that a run continues, and perhaps how long it has run. Sets the deadline of the run.
    pub(crate) fn time_run(&mut self, now: Now, task: TaskId, ran: Option<Duration>) {
        let Some(record) = self.tasks.get(task) else { return };
        let (Some(timeout), TaskState::Running(run)) = (record.policy.timeout, &record.state) else { return };
        let timer = Timer::RunTime(task);
        if ran.is_none() && self.turn.has_timer(&timer) {
            return;
        }
        // An agent that does not say how long the run has taken may have reported its start late. Only wall clocks say when it
        // started, and they jump: no run is older than its dispatch. A dispatch by an earlier controller is known by a wall clock
        // only.
        let shown = || run.times.run.map_or(Duration::ZERO, |at| now.wall.since(at.max(run.dispatched_at)));
        let ran = ran.unwrap_or_else(|| run.dispatched.map_or(Duration::ZERO, |at| now.mono.since(at).min(shown())));
        self.turn.set_timer(timer, now.mono + timeout.saturating_sub(ran));
    }

    /// Queues the next round of a task.
    pub(crate) fn again(&mut self, now: Now, task: TaskId, mut again: Again) {
        let Some(record) = self.tasks.get(task) else { unreachable!("task {task} is gone between two rounds") };
        let (policy, is_held) = (Arc::clone(&record.policy), record.held.is_some());
        // Counts of the earlier rounds: a loss has been counted already, whatever follows it.
        let counted = u32::from(again.end == RoundEnd::Lost);
        let rounds = (record.counts.fails + record.counts.timeouts + record.counts.losses).saturating_sub(counted);
        let asked = again.result.as_ref().and_then(|result| result.defer.as_deref()).cloned().unwrap_or_default();
        let delay = match again.end {
            // The task has had its pause.
            _ if again.not_before.is_some() => Duration::ZERO,
            RoundEnd::Deferred if asked.until_released => asked.retry_after.unwrap_or_default(),
            RoundEnd::Deferred => asked.retry_after.unwrap_or(self.settings.defer_delay),
            RoundEnd::Failed | RoundEnd::TimedOut | RoundEnd::Lost => self.backoff(policy.retry_delay, rounds),
            RoundEnd::Returned | RoundEnd::Retried | RoundEnd::NoTool | RoundEnd::DiskFull | RoundEnd::NotHere => {
                Duration::ZERO
            }
        };
        let later = |at: &Wall| *at > now.wall;
        again.not_before = policy.start_after.max((!delay.is_zero()).then(|| now.wall + delay)).filter(later);
        if again.end == RoundEnd::Deferred {
            // A tool may close only gates that it passes itself.
            for gate in asked.gates.iter().filter(|gate| policy.needs.gates.contains(gate)) {
                self.close_gate(now, gate, now.wall + delay);
            }
        }
        // Children belong to the run, not to the task: the next round makes its own.
        self.end_children(now, task);
        self.turn.clear_timer(&Timer::RunTime(task));
        self.forget_lease(task);
        let is_retried = again.end == RoundEnd::Retried;
        if again.end == RoundEnd::Deferred && asked.until_released {
            self.hold_task(now, task, Some(now.wall));
        } else if is_retried && is_held {
            // A task that was killed while it was held is wanted now.
            self.hold_task(now, task, None);
        }
        self.change(now, task, TaskEvent::Again(again));
        if !is_retried {
            self.skip_if_stopped(now, task);
            self.drop_if_told(now, task);
        }
    }

    /// The pause before the next round. It doubles each time, up to a cap, and up to a quarter is added at random, so that
    /// tasks that failed together do not return together.
    pub(crate) fn backoff(&mut self, base: Duration, rounds: u32) -> Duration {
        use rand::RngExt as _;
        if base.is_zero() {
            return Duration::ZERO;
        }
        let doubled = base.saturating_mul(1_u32.checked_shl(rounds).unwrap_or(u32::MAX));
        doubled.min(self.settings.retry_delay_max.max(base)).mul_f64(self.tasks.ids.random.random_range(1.0..1.25))
    }
}
