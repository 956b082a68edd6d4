//! A TDF worker: one task at a time, from the claim to the report.
//!
//! | phase | event | next phase |
//! |---|---|---|
//! | settling | a kept result is reported; the runs of dead processes are lost | settling; claiming |
//! | resting | it is woken, or the pause has ended | claiming |
//! | claiming | a task; none; no answer | preparing; resting; claiming, with the same token |
//! | preparing | the program is there; it cannot be had | starting; reporting |
//! | starting | it runs; it cannot be started | running; reporting |
//! | running ([`proc::ladder::RunMachine`]) | no process of the run is left | reporting; giving back; resting, if the result is not wanted |
//! | reporting | Redis has the result, or drops it | resting; claiming |
//! | giving back | Redis has the task back, or does not want it | ended |
//!
//! | event | enters by |
//! |---|---|
//! | a kept result cannot be read | [`Worker::handle_unreadable`] |
//! | Redis answers a call, or does not | [`Worker::handle_recovered`], [`Worker::handle_claimed`], [`Worker::handle_reported`], [`Worker::handle_given_back`], [`Worker::handle_renewed`] |
//! | a task may be open | [`Worker::handle_woken`] |
//! | an effect has finished, with success or not | [`Worker::handle_prepared`], [`Worker::handle_started`], [`Worker::handle_tree`], [`Worker::handle_collected`] |
//! | the program has ended | [`Worker::handle_exited`] |
//! | a request to stop | [`Worker::handle_stop`] |
//! | a deadline | [`Worker::handle_timeout`] |
//!
//! Redis may be away at any time. Programs continue, results are kept on the disk, and every call is repeated until it is
//! answered, so that each may arrive twice. The lease of a claimed task is renewed; a worker that has lost it ends the program.

mod calls;
mod run;

#[cfg(test)]
mod scenarios;

use std::collections::VecDeque;
use std::time::Duration;

use crate::engine::doubts::Doubts;
use crate::engine::lease::RENEWAL_INTERVAL;
use crate::engine::outage::Outage;
use crate::wire::Budget;
use base::tdf::{Fence, State, TaskId};
use base::timers::Timers;
use base::{Mono, Now};
pub use proc::ladder::{Signal, StartFailure};

use run::{Ending, Run};

/// The longest pause of an idle worker. An original wakes no worker when it opens a task, so half of this is the usual delay.
pub(super) const POLL_INTERVAL_MAX: Duration = Duration::from_millis(400);

/// Without any pause, an idle worker would do nothing but ask.
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// A report that has no answer after this time is kept on the disk, where it outlives this process.
pub(super) const KEEP_AFTER: Duration = Duration::from_millis(200);

/// The attempts to read a kept result, which is passed over then and stays on the disk, and the pause between two.
pub(super) const READS_MAX: u32 = 5;
pub(super) const READ_PAUSE: Duration = Duration::from_millis(500);

/// How long a worker that stops tries to reach a Redis that is away.
const LEAVE_AFTER: Duration = Duration::from_secs(5);

/// The engine's part of the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The pause after a run that wrote nothing to stderr.
    pub pause_after_success: Duration,
    /// The pause after any other run.
    pub pause_after_failure: Duration,
    /// The longest pause while no task is open.
    pub poll_interval: Duration,
    /// Between SIGTERM and SIGKILL to a program that is to end.
    pub kill_interval: Duration,
    /// Between SIGTERM and SIGKILL to what a program has left behind.
    pub straggler_grace: Duration,
}

/// A task that was claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The run of the task.
    pub fence: Fence,
    /// The name of the program, unchecked.
    pub program: String,
    /// The source of the program, unchecked.
    pub source: String,
    /// Arguments of the program, as a shell reads them.
    pub input: Vec<u8>,
    /// The longest time of a run, from the claim on; `None` is unlimited.
    pub timeout: Option<Duration>,
    /// The number of runs that have timed out, and its limit.
    pub timeouts: Budget,
}

impl Assignment {
    /// A run that has ended, and whose result is to be reported.
    #[must_use]
    pub fn of(fence: Fence) -> Self {
        let (program, source, input) = (String::new(), String::new(), Vec::new());
        Self { fence, program, source, input, timeout: None, timeouts: Budget { used: 0, max: 0 } }
    }
}

/// An instruction to the shell; the order matters. Results come back as events.
#[must_use]
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Give up the runs that dead processes of this worker's name have left; then [`Worker::handle_recovered`].
    Recover,
    /// Claim a task with the token of this number; then [`Worker::handle_claimed`].
    Claim(u64),
    /// Get the program; then [`Worker::handle_prepared`].
    Prepare {
        /// The task.
        task: Box<Assignment>,
        /// Whether the source is asked for a new version, because the last run of the program has failed.
        doubted: bool,
    },
    /// Abort the preparation; then [`Worker::handle_prepared`].
    CancelPreparation,
    /// Start the program; then [`Worker::handle_started`].
    Start,
    /// Signal everything that the program has started.
    Signal(Signal),
    /// Check whether the program has left processes behind; then [`Worker::handle_tree`].
    CheckTree,
    /// Read the outputs of the run; then [`Worker::handle_collected`].
    Collect(Outcome),
    /// Drop the outputs of a run without a result.
    Discard,
    /// Report the result that was collected or kept; then [`Worker::handle_reported`] or [`Worker::handle_unreadable`]. When that is
    /// answered, claim the next task with the token of this number, without a step of this engine between.
    Report {
        /// The run.
        fence: Fence,
        /// The next claim.
        claim: Option<u64>,
    },
    /// Write the result to the disk: Redis may be away for longer than this process lives.
    Keep,
    /// The result has been reported, or has no use.
    Forget(Fence),
    /// Show that this worker lives, and renew the lease of its run; then [`Worker::handle_renewed`].
    Renew(Option<Fence>),
    /// Let the round wait again; then [`Worker::handle_given_back`].
    GiveBack(Fence),
    /// Write a line to the log.
    Log(Note),
    /// The worker is done.
    Exit(End),
}

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The program has ended by itself.
    Executed,
    /// There was no program to run, for this reason.
    Unstarted(String),
    /// The run has taken longer than this limit.
    TimedOut(Duration),
}

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// Redis does not answer.
    Away(String),
    /// Redis answers again.
    Back,
    /// Another worker has the task, or its time has passed: the answer of Redis about it.
    Dropped(TaskId, String),
    /// The run of a dead process of this name is lost; the state of its task.
    Orphan(TaskId, State),
    /// The kept result of this task cannot be read, for this reason, and stays on the disk.
    Unreadable(TaskId, String),
    /// A task is given back because the worker stops.
    GivenBack(TaskId),
}

/// Why the worker is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// On request; the worker has no task in Redis and no result on the disk.
    Stopped {
        /// The task that was given back.
        given_back: Option<TaskId>,
    },
    /// On request while Redis was away: the next process of this name reports the result of this task.
    Kept(TaskId),
    /// On request while Redis was away: this task waits again when its lease has expired.
    Unreturned(TaskId),
    /// No program can be run, for this reason; the task was given back.
    Broken(String),
}

/// The reason for a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The pause before a claim has ended.
    Claim,
    /// A call that was not answered is due again.
    Retry,
    /// A renewal is due.
    Renew,
    /// The time limit of the program has passed.
    Limit,
    /// The next signal to a program that is to end, or to its remains, is due.
    Signal,
    /// A report is not confirmed.
    Keep,
    /// A worker that stops has waited long enough.
    Leave,
}

#[derive(Debug)]
enum Phase {
    /// A dead process of this name has left these results on the disk, and maybe runs, which follow.
    Settling {
        results: VecDeque<Fence>,
        /// Vain attempts to read the first one.
        reads: u32,
    },
    Resting {
        is_idle: bool,
    },
    Claiming,
    Busy(Box<Run>),
    Reporting {
        fence: Fence,
        is_kept: bool,
        pause: Duration,
        claim: bool,
    },
    GivingBack {
        fence: Fence,
    },
    Ended,
}

/// One worker.
#[derive(Debug)]
pub struct Worker {
    settings: Settings,
    phase: Phase,
    /// The number of the present claim, or of the next one.
    claims: u64,
    /// Whether a call of the phase is with Redis.
    is_calling: bool,
    /// Whether a task may have been opened since the last claim left.
    is_woken: bool,
    outage: Outage,
    doubts: Doubts,
    stopping: Option<Stopping>,
    timers: Timers<Timer>,
    effects: VecDeque<Effect>,
}

#[derive(Debug, Default)]
struct Stopping {
    given_back: Option<TaskId>,
    broken: Option<String>,
}

impl Worker {
    /// A worker that first settles what dead processes of its name have left; `results` are on the disk.
    #[must_use]
    pub fn new(now: Now, mut settings: Settings, results: Vec<Fence>) -> Self {
        settings.poll_interval = settings.poll_interval.clamp(POLL_INTERVAL_MIN, POLL_INTERVAL_MAX);
        let mut worker = Self {
            settings,
            phase: Phase::Settling { results: results.into(), reads: 0 },
            claims: 0,
            is_calling: false,
            is_woken: false,
            outage: Outage::default(),
            doubts: Doubts::default(),
            stopping: None,
            timers: Timers::default(),
            effects: VecDeque::new(),
        };
        worker.timers.set(Timer::Renew, now.mono + RENEWAL_INTERVAL);
        worker.call();
        worker
    }

    /// The next effect.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The nearest deadline, and its reason.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Mono, Timer)> {
        self.timers.next().map(|(at, timer)| (at, *timer))
    }

    /// Handles everything that is due.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some(timer) = self.timers.pop_due(now.mono) {
            match timer {
                Timer::Claim => self.claim(),
                Timer::Retry => self.call(),
                Timer::Renew => self.renew(),
                Timer::Limit | Timer::Signal => self.run_timer(now, timer),
                Timer::Keep => self.keep(),
                Timer::Leave => self.leave(),
            }
        }
    }

    /// A task may be open. A pause that the user wants after each run is not cut short.
    pub fn handle_woken(&mut self) {
        match self.phase {
            Phase::Resting { is_idle: true } => self.claim(),
            _ => self.is_woken = true,
        }
    }

    /// Stops the worker: the program ends, and its task is given back. On a second request the program gets no time to end.
    pub fn handle_stop(&mut self, now: Now) {
        if self.stopping.is_some() {
            match self.phase {
                Phase::Busy(_) => self.hurry(now),
                Phase::Ended => {}
                _ => self.leave(),
            }
            return;
        }
        self.stop(now, Stopping::default());
    }

    /// Another process has the name of this worker, and calls of this process would count as that one's.
    pub fn handle_displaced(&mut self, now: Now, reason: String) {
        match &mut self.stopping {
            Some(stopping) => {
                stopping.broken.get_or_insert(reason);
            }
            None => self.stop(now, Stopping { broken: Some(reason), ..Stopping::default() }),
        }
    }

    fn stop(&mut self, now: Now, stopping: Stopping) {
        self.stopping = Some(stopping);
        match &self.phase {
            Phase::Busy(_) => self.end_run(now, Ending::Stopped),
            Phase::Reporting { .. } | Phase::GivingBack { .. } => self.timers.set(Timer::Leave, now.mono + LEAVE_AFTER),
            // The answer may bring a task, which is then given back.
            _ if self.is_calling => self.timers.set(Timer::Leave, now.mono + LEAVE_AFTER),
            Phase::Claiming | Phase::Settling { .. } | Phase::Resting { .. } => self.leave(),
            Phase::Ended => {}
        }
    }

    /// Ends the worker, with or without the answer of a pending call.
    fn leave(&mut self) {
        let Stopping { given_back, broken } = self.stopping.take().unwrap_or_default();
        self.keep();
        let end = match (&self.phase, broken) {
            (_, Some(reason)) => End::Broken(reason),
            (Phase::Reporting { fence, .. }, None) => End::Kept(fence.task),
            (Phase::GivingBack { fence }, None) => End::Unreturned(fence.task),
            _ => End::Stopped { given_back },
        };
        self.stopping = Some(Stopping::default());
        self.phase = Phase::Ended;
        self.timers = Timers::default();
        self.effects.push_back(Effect::Exit(end));
    }

    fn log(&mut self, note: Note) {
        self.effects.push_back(Effect::Log(note));
    }

    /// Panics if an invariant is broken. For tests.
    #[cfg(test)]
    fn sanity_check(&self) {
        assert!(!(self.is_calling && self.timers.is_set(&Timer::Retry)), "{self:?}");
        assert!(!matches!(self.phase, Phase::Busy(_)) || !self.is_calling, "{self:?}");
        let has_future = self.is_calling || self.timers.next().is_some() || matches!(self.phase, Phase::Busy(_));
        assert!(matches!(self.phase, Phase::Ended) || has_future, "nothing will ever happen: {self:?}");
    }
}
