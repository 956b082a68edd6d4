//! The prompt worker: one connection to a master, and one run of its command at a time.
//!
//! | event | enters by |
//! |---|---|
//! | the connection is there, or cannot be had, or has ended | [`Worker::handle_connected`], [`Worker::handle_unreachable`], [`Worker::handle_closed`] |
//! | the master says something | [`Worker::handle_message`] |
//! | an effect has come out, well or badly | [`Worker::handle_started`], [`Worker::handle_tree`], [`Worker::handle_results_stored`] |
//! | the command has ended | [`Worker::handle_exited`] |
//! | the worker is told to stop | [`Worker::handle_stop`] |
//! | a deadline | [`Worker::handle_timeout`] |
//!
//! Who owns what: [`link`] whether there is a master, and when to look for one again; [`run`] the phases of the command and the
//! signals to it. The two meet here.
//!
//! A request and a check are acknowledged by the event that brings them, whatever the command is doing. A result is reported
//! when nothing is left of what the command has started and the results are in place. A run whose connection has ended is
//! void: the master has given its prompt back, so it is ended, and there is no other connection before its end.

mod link;
mod run;

#[cfg(test)]
mod scenarios;

use std::collections::VecDeque;
use std::time::Duration;

use crate::config::Secret;
pub use crate::engine::run::Signal;
use crate::engine::timers::Timers;
use crate::protocol::prompt::{FromMaster, FromWorker, Request};
use crate::types::{ExitCode, Mono, Now};

use link::Link;
use run::Run;

/// What a command exits with that can do nothing more for a while: `EX_TEMPFAIL` of sysexits.h.
pub const USAGE_LIMITED: ExitCode = ExitCode(75);

/// What the engine must know of the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the master wants to hear of whoever joins.
    pub secret: Option<Secret>,
    /// How long a master may be away before the worker ends; `None` is for ever.
    pub patience: Option<Duration>,
    /// How long a master may take to answer a JOIN.
    pub join_timeout: Duration,
    /// The longest pause between two attempts to reach the master.
    pub reconnect_interval_max: Duration,
    /// How long the worker stays away after USAGE_LIMITED if the command does not say.
    pub limited_pause: Duration,
    /// Whether the worker ends after USAGE_LIMITED instead.
    pub ends_when_limited: bool,
    /// Between SIGTERM and SIGKILL to a command that is to end.
    pub kill_interval: Duration,
    /// Between SIGTERM and SIGKILL to what a command has left behind.
    pub straggler_grace: Duration,
}

/// What the shell must do, in order. What can fail comes back as an event.
#[must_use]
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Connect to the master; then [`Worker::handle_connected`] or [`Worker::handle_unreachable`].
    Connect,
    /// Say this to the master.
    Send(FromWorker),
    /// Close the connection, when what was said is on its way.
    Close,
    /// Start the command for this prompt; then [`Worker::handle_started`].
    Start(Box<Request>),
    /// Signal everything that the command has started.
    Signal(Signal),
    /// Look whether the command has left processes behind; then [`Worker::handle_tree`].
    CheckTree,
    /// Put the results of the run where they belong, before the master hears of it; then [`Worker::handle_results_stored`].
    StoreResults(ResultFolder),
    /// The run has no results: its prompt waits again, and its next run has some of its own.
    Discard,
    /// The worker is done.
    Exit(End),
}

/// Where the results of a run belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultFolder {
    /// Beside what is done.
    Done,
    /// Beside what has failed.
    Failed,
    /// The same, but the master counts the time, too, and may have put the prompt there already.
    Overdue,
}

/// Why the worker is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It was told to stop.
    Stopped,
    /// Everything is worked off, or the master has closed the connection and did not come back.
    MasterGone,
    /// No master could be reached at all; the last reason.
    NoMaster(String),
    /// The master does not want this worker, and says why.
    Refused(String),
    /// The command can do nothing more for so long.
    Limited(Duration),
    /// The command cannot be started, which no other prompt would change.
    CannotRun(String),
    /// The results of a run cannot be kept: those of the next would be lost as well.
    CannotStoreResults(String),
}

/// Why the engine wants to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The next attempt to reach the master is due.
    Reconnect,
    /// The master does not answer the JOIN.
    Join,
    /// The command may work again.
    Resume,
    /// The command takes longer than the master gives it.
    Limit,
    /// The next signal to a command that is to end, or to what it has left, is due.
    Signal,
}

/// One prompt worker.
#[derive(Debug)]
pub struct Worker {
    settings: Settings,
    link: Link,
    run: Run,
    stopping: bool,
    tally: Tally,
    timers: Timers<Timer>,
    effects: VecDeque<Effect>,
}

/// The prompts that a worker has worked off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Whatever came of them.
    pub all: u64,
    /// Those that have failed.
    pub failed: u64,
}

impl Worker {
    /// A worker that looks for its master.
    #[must_use]
    pub fn new(settings: Settings, now: Now) -> Self {
        let mut worker = Self {
            settings,
            link: Link::new(now),
            run: Run::Free,
            stopping: false,
            tally: Tally::default(),
            timers: Timers::default(),
            effects: VecDeque::new(),
        };
        worker.connect();
        worker
    }

    /// What the shell must do next.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// What has been worked off.
    #[must_use]
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// The nearest deadline, and why.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Mono, Timer)> {
        self.timers.next().map(|(at, timer)| (at, *timer))
    }

    /// The time has come.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some(timer) = self.timers.pop_due(now.mono) {
            match timer {
                Timer::Reconnect | Timer::Resume | Timer::Join => self.link_timer(now, timer),
                Timer::Limit | Timer::Signal => self.run_timer(now, timer),
            }
        }
    }

    /// The master has said something.
    pub fn handle_message(&mut self, now: Now, message: FromMaster) {
        match message {
            FromMaster::JoinAck => self.joined(),
            FromMaster::Check(id) => self.send(FromWorker::CheckAck(id)),
            FromMaster::Request(request) => self.requested(now, request),
            FromMaster::Refused(reason) => self.refused(now, reason),
            FromMaster::Completed => self.completed(now),
            FromMaster::StatusAck(_) => log::warn!("the master answers a question that was not asked"),
        }
    }

    fn requested(&mut self, now: Now, request: Request) {
        if self.run.is_of(&request.id) {
            self.send(FromWorker::RequestAck(request.id));
        } else if self.run.is_free() && self.link.is_joined() && !self.stopping {
            self.send(FromWorker::RequestAck(request.id.clone()));
            self.link = Link::Joined;
            self.run = Run::starting(now, &request);
            self.effects.push_back(Effect::Start(Box::new(request)));
        } else {
            // Without an acknowledgement the master gives it to another one.
            log::warn!("the request {} comes while another prompt is worked on", request.id);
        }
    }

    /// Stop: end the command, give the prompt back, leave. The second time the command gets no time to end.
    pub fn handle_stop(&mut self, now: Now) {
        if self.stopping {
            self.hurry(now);
            return;
        }
        self.stopping = true;
        self.void_run(now);
        self.leave_if_stopping();
    }

    /// Leaves, once there is nothing left to end.
    fn leave_if_stopping(&mut self) {
        if self.stopping && self.run.is_free() {
            self.exit(End::Stopped);
        }
    }

    fn exit(&mut self, end: End) {
        if self.link.is_joined() {
            self.send(FromWorker::Leave);
        }
        if self.link.is_open() {
            self.effects.push_back(Effect::Close);
        }
        self.link = Link::Ended;
        self.timers = Timers::default();
        self.effects.push_back(Effect::Exit(end));
    }

    fn send(&mut self, message: FromWorker) {
        self.effects.push_back(Effect::Send(message));
    }

    /// Panics if an invariant is broken. For tests.
    #[cfg(test)]
    fn sanity_check(&self) {
        assert!(self.link.is_joined() || self.run.is_free() || self.run.is_ending(), "{self:?}");
        assert_eq!(self.timers.is_set(&Timer::Join), self.link.is_joining(), "{self:?}");
        assert!(!self.stopping || self.run.is_ending() || self.run.is_free(), "{self:?}");
        assert!(matches!(self.link, Link::Ended) || self.has_future(), "nothing will ever happen: {self:?}");
    }

    #[cfg(test)]
    fn has_future(&self) -> bool {
        self.timers.next().is_some() || !self.run.is_free() || self.link.is_joined() || self.link.is_connecting()
    }
}
