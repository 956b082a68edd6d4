//! The prompt worker: one connection to a master, and one run of its command at a time.
//!
//! | event | enters by |
//! |---|---|
//! | the connection is made, cannot be made, or has ended | [`Worker::handle_connected`], [`Worker::handle_unreachable`], [`Worker::handle_denied`], [`Worker::handle_closed`] |
//! | a message of the master | [`Worker::handle_message`] |
//! | the result of an effect | [`Worker::handle_started`], [`Worker::handle_tree`], [`Worker::handle_results_stored`] |
//! | the command has ended | [`Worker::handle_exited`] |
//! | a request to stop | [`Worker::handle_stop`] |
//! | a deadline | [`Worker::handle_timeout`] |
//!
//! The parts: [`link`] has the connection to the master, [`run`] the phases of the command and the signals to it, [`report`] the report
//! on it, [`brake`] the pauses. They meet here.
//!
//! A request and a check are acknowledged at once, whatever the command is doing. A result is reported when no process of
//! the command is left and the results are in place.
//!
//! A master of ours keeps the prompt of a worker without a connection for the time of its lease ([`Welcome`]). The run goes
//! on meanwhile, and the worker names it when it joins again. The worker keeps its report until the master has acknowledged it. The
//! lease counts from the last message of the master, which is earlier than the moment when the master misses the worker. So
//! the worker has ended the run when the master hands the prompt out again. With any other master, a run whose connection has
//! ended is void, because the master has put its prompt back: it is ended, and no new connection is made before its end.

mod brake;
pub mod command_line;
mod link;
mod phases;
mod report;
mod run;
pub mod signs;

#[cfg(test)]
mod scenarios;

use std::collections::VecDeque;
use std::time::Duration;

use crate::wire::{FromMaster, FromWorker, Request, RequestId, TailOrder, Welcome};
use api::config::Secret;
use base::journal::{Journal, LogLine};
use base::timers::Timers;
use base::{ExitCode, Mono, Now};
pub use proc::ladder::Signal;

pub use brake::BrakeSettings;
pub use report::{StartError, StoreError};
pub use signs::Sign;

use brake::Brake;
use link::Link;
use phases::Run;

/// Exit code of a command that can do nothing more for a while: `EX_TEMPFAIL` of sysexits.h.
pub const USAGE_LIMITED: ExitCode = ExitCode(75);

/// The engine's part of the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Secret for joining a master.
    pub secret: Option<Secret>,
    /// How long a master may be absent before the worker ends; `None` is forever.
    pub patience: Option<Duration>,
    /// Time limit for the answer to a JOIN.
    pub join_timeout: Duration,
    /// The longest pause between two attempts to reach the master.
    pub reconnect_interval_max: Duration,
    /// How long the worker stays away after USAGE_LIMITED if the command names no time; it doubles with each in a row.
    pub limited_pause: Duration,
    /// The service behind the command; a limit holds up all workers with the same one.
    pub gate: Option<String>,
    /// When to pause for other reasons.
    pub brake: BrakeSettings,
    /// End after USAGE_LIMITED instead of joining again.
    pub ends_when_limited: bool,
    /// Time between SIGTERM and SIGKILL to a command that must end.
    pub kill_interval: Duration,
    /// Time between SIGTERM and SIGKILL to processes that a command has left behind.
    pub straggler_grace: Duration,
}

/// An instruction to the shell; the order matters. Results come back as events.
#[must_use]
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Connect to the master; then [`Worker::handle_connected`] or [`Worker::handle_unreachable`].
    Connect,
    /// Send this to the master.
    Send(FromWorker),
    /// Close the connection after sending all queued messages.
    Close,
    /// Start the command for this prompt; then [`Worker::handle_started`].
    Start(Box<Request>),
    /// Signal all processes that the command has started.
    Signal(Signal),
    /// Check whether the command has left processes behind; then [`Worker::handle_tree`].
    CheckTree,
    /// Put the results of the run in place, before the master gets the report; then [`Worker::handle_results_stored`].
    StoreResults(ResultFolder),
    /// Discard the output of the run: its prompt waits again, and its next run has its own output.
    Discard,
    /// Send the stored results of this run, unless the master finds them in its own folders or takes none; then
    /// [`Worker::handle_results_sent`].
    SendResults(RequestId, Box<Welcome>),
    /// Answer this request from the files of the run or of a former one, as soon as they contain the part.
    Tail(Box<TailOrder>),
    /// The worker has ended.
    Exit(End),
}

/// The folder for the results of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultFolder {
    /// Beside the prompts in `done/`.
    Done,
    /// Beside the prompts in `failed/`.
    Failed,
    /// `failed/`, but the master also applies the time limit, and may have put the prompt there already.
    Overdue,
}

/// Why the worker has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A person or a process has stopped the worker.
    Stopped,
    /// The master has sent COMPLETED: all prompts are done.
    Completed,
    /// The master has closed the connection and did not come back.
    MasterGone,
    /// No master could be reached at all; the reason of the last attempt.
    NoMaster(String),
    /// The master refuses this worker, for this reason.
    Refused(String),
    /// The command can do nothing more for this long.
    Limited(Duration),
    /// The command cannot be started, which would be the same for every prompt.
    CannotRun(String),
}

/// The reason for a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The next attempt to reach the master is due.
    Reconnect,
    /// The master has not answered the JOIN.
    Join,
    /// The command may work again.
    Resume,
    /// The master no longer keeps the prompt of the run.
    Lease,
    /// The command has reached the time limit of the master.
    Limit,
    /// The next signal is due, to a command that must end or to its remains.
    Signal,
}

/// A prompt worker. See the [module](self).
#[derive(Debug)]
pub struct Worker {
    settings: Settings,
    link: Link,
    run: Run,
    /// The terms of the master of the last connection; `None` for an original.
    welcome: Option<Box<Welcome>>,
    /// Moment of the last message of the master.
    last_message: Mono,
    brake: Brake,
    stopping: bool,
    tally: Tally,
    timers: Timers<Timer>,
    effects: VecDeque<Effect>,
    journal: Journal,
}

/// Number of finished prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// All of them, with any result.
    pub all: u64,
    /// The failed ones.
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
            welcome: None,
            last_message: now.mono,
            brake: Brake::default(),
            stopping: false,
            tally: Tally::default(),
            timers: Timers::default(),
            effects: VecDeque::new(),
            journal: Journal::default(),
        };
        worker.connect();
        worker
    }

    /// The log lines since the last call; see [`base::journal`].
    pub fn take_log(&mut self) -> VecDeque<LogLine> {
        self.journal.take()
    }

    /// The next effect.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The number of finished prompts.
    #[must_use]
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// The nearest deadline, and its reason.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Mono, Timer)> {
        self.timers.next().map(|(at, timer)| (at, *timer))
    }

    /// A deadline has passed.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some(timer) = self.timers.pop_due(now.mono) {
            match timer {
                Timer::Reconnect | Timer::Resume | Timer::Join | Timer::Lease => self.link_timer(now, timer),
                Timer::Limit | Timer::Signal => self.run_timer(now, timer),
            }
        }
    }

    /// The master has sent a message.
    pub fn handle_message(&mut self, now: Now, message: FromMaster) {
        self.last_message = now.mono;
        match message {
            FromMaster::JoinAck => self.joined(now, None),
            FromMaster::Welcome(welcome) => self.joined(now, Some(welcome)),
            FromMaster::ReportAck(run) => self.reported(now, &run),
            FromMaster::Check(id) => self.send(FromWorker::CheckAck(id)),
            FromMaster::Request(request) => self.requested(now, request),
            FromMaster::Refused(reason) => self.refused(now, reason),
            FromMaster::Completed => self.completed(now),
            FromMaster::Tail(order) => self.effects.push_back(Effect::Tail(order)),
            FromMaster::StatusAck(_) | FromMaster::TailPart(_) => {
                self.journal.warn("the master answers a request that was not sent");
            }
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
            // Without an acknowledgement the master gives it to another worker.
            self.journal.warn(format!("the request {} arrives while another prompt is being processed", request.id));
        }
    }

    /// Stops: ends the command, returns the prompt, leaves. A second call ends the command at once.
    pub fn handle_stop(&mut self, now: Now) {
        if self.stopping {
            self.hurry(now);
            return;
        }
        self.stopping = true;
        self.void_run(now);
        self.leave_if_stopping();
    }

    /// Leaves, once no run is left to end.
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
        let is_kept = self.timers.is_set(&Timer::Lease);
        assert!(self.link.is_joined() || self.run.is_free() || self.run.is_ending() || is_kept, "{self:?}");
        assert!(!is_kept || !(self.run.is_free() || self.link.is_joined()), "{self:?}");
        assert_eq!(self.timers.is_set(&Timer::Join), self.link.is_joining(), "{self:?}");
        assert!(!self.stopping || self.run.is_ending() || self.run.is_free(), "{self:?}");
        assert!(matches!(self.link, Link::Ended) || self.has_future(), "nothing will ever happen: {self:?}");
    }

    #[cfg(test)]
    fn has_future(&self) -> bool {
        self.timers.next().is_some() || !self.run.is_free() || self.link.is_joined() || self.link.is_connecting()
    }
}
