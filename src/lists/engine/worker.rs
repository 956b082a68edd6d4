//! A worker of task lists: one connection to a server, one list at a time, one command at a time.
//!
//! | event | enters by |
//! |---|---|
//! | the connection is made, cannot be made, or has ended | [`Worker::handle_connected`], [`Worker::handle_unreachable`], [`Worker::handle_closed`] |
//! | a message of the server | [`Worker::handle_message`] |
//! | the result of an effect | [`Worker::handle_started`], [`Worker::handle_tree`], [`Worker::handle_collected`] |
//! | the command has ended | [`Worker::handle_exited`] |
//! | a request to stop | [`Worker::handle_stop`] |
//! | a deadline | [`Worker::handle_timeout`] |
//!
//! The parts: [`link`] has the connection, [`run`] the list and its commands, [`outbox`] the results on their way to the server. A list
//! continues while the server is away, and its results are delivered later, unless the list has been opened again.

mod link;
mod outbox;
mod run;

use std::collections::VecDeque;
use std::time::Duration;

pub use crate::engine::result::Output;
use crate::wire::{FromServer, FromWorker, Order};
use api::config::Secret;
use base::journal::{Journal, LogLine};
use base::tdf::WorkerName;
use base::timers::Timers;
use base::{Mono, Now};
pub use proc::ladder::StartFailure;
use proc::ladder::{SWEEP_INTERVAL, Signal};

use link::Link;
use outbox::Outbox;
use run::List;

/// How long a worker that stops tries to deliver its last results.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

/// The engine's part of the configuration.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the worker.
    pub name: WorkerName,
    /// Secret for joining a server.
    pub secret: Option<Secret>,
    /// How long the worker tries to reach its first server.
    pub patience: Duration,
    /// The longest pause between two attempts.
    pub reconnect_interval_max: Duration,
    /// Time between SIGTERM and SIGKILL to a command that must end.
    pub kill_interval: Duration,
    /// Time between SIGTERM and SIGKILL to processes that a command has left behind.
    pub straggler_grace: Duration,
}

/// An instruction to the shell; the order matters. Results come back as events.
#[must_use]
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Connect to the server; then [`Worker::handle_connected`] or [`Worker::handle_unreachable`].
    Connect,
    /// Send this to the server.
    Send(FromWorker),
    /// Close the connection after sending all queued messages.
    Close,
    /// Start this command; then [`Worker::handle_started`].
    Start(Order),
    /// Signal all processes that the command has started.
    Signal(Signal),
    /// Check whether the command has left processes behind; then [`Worker::handle_tree`].
    CheckTree,
    /// Read the outputs of the command, up to this many bytes each; then [`Worker::handle_collected`].
    Collect(usize),
    /// The worker has ended.
    Exit(End),
}

/// Why the worker has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// On request.
    Stopped,
    /// On request; this many results could not be delivered, and their tasks run again.
    Undelivered(usize),
    /// No server could be reached at all; the reason of the last attempt.
    NoServer(String),
    /// The server refuses this worker, for this reason.
    Refused(String),
    /// No command can be started here.
    CannotRun(String),
}

/// The reason for a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The next attempt to reach the server is due.
    Reconnect,
    /// The server has not answered HELLO.
    Join,
    /// A sign of life is due.
    Beat,
    /// The next signal is due, to a command that must end or to its remains.
    Signal,
    /// The last results have not been delivered in time.
    Farewell,
}

/// One worker.
#[derive(Debug)]
pub struct Worker {
    settings: Settings,
    link: Link,
    /// Bytes of one output that the server takes.
    output_bytes_max: usize,
    list: Option<List>,
    outbox: Outbox,
    /// The reason of an end that has begun.
    stopping: Option<End>,
    timers: Timers<Timer>,
    effects: VecDeque<Effect>,
    journal: Journal,
}

impl Worker {
    /// A worker that searches for its server.
    #[must_use]
    pub fn new(settings: Settings, now: Now) -> Self {
        let mut worker = Self {
            settings,
            link: Link::new(now),
            output_bytes_max: 0,
            list: None,
            outbox: Outbox::default(),
            stopping: None,
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

    /// The nearest deadline, and its reason.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Mono, Timer)> {
        self.timers.next().map(|(at, timer)| (at, *timer))
    }

    /// A deadline has passed.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some(timer) = self.timers.pop_due(now.mono) {
            match timer {
                Timer::Reconnect | Timer::Join | Timer::Beat => self.link_timer(now, timer),
                Timer::Signal => self.signal_timer(now),
                // A command that is being killed is not left behind.
                Timer::Farewell if self.is_running() => self.timers.set(Timer::Farewell, now.mono + SWEEP_INTERVAL),
                Timer::Farewell => self.exit(),
            }
        }
    }

    /// The server has sent a message.
    pub fn handle_message(&mut self, now: Now, message: FromServer) {
        match message {
            FromServer::Welcome { lost_after, output_bytes_max, void } => {
                self.output_bytes_max = output_bytes_max;
                self.joined(now, Duration::from_millis(lost_after));
                for list in void {
                    self.journal.warn(format!("{} is not this worker's any more", list.0));
                    self.give_up_list(now, &list.0);
                }
                // Also results of such lists: the server counts what it refuses.
                self.outbox.send_again();
                self.deliver();
                self.go_on(now);
            }
            FromServer::List { list, tasks } => self.take(now, list.0, tasks),
            FromServer::Ack { number } => {
                self.outbox.acknowledged(number);
                self.deliver();
                self.go_on(now);
            }
            FromServer::Void { list } => {
                let dropped = self.outbox.drop_list(&list.0);
                self.journal.warn(format!("{dropped} results of {} come too late and are dropped", list.0));
                self.give_up_list(now, &list.0);
                self.deliver();
                self.go_on(now);
            }
            FromServer::Refused { reason, is_passing } => self.refused(now, reason, is_passing),
        }
    }

    /// A request to stop. The second one waits for nothing.
    pub fn handle_stop(&mut self, now: Now) {
        if self.stopping.is_some() {
            self.hurry(now);
            self.timers.set(Timer::Farewell, now.mono);
        }
        self.stop(now, End::Stopped);
    }

    fn stop(&mut self, now: Now, end: End) {
        if self.stopping.is_none() {
            self.stopping = Some(end);
            self.give_up(now);
            self.leave_if_done(now);
        }
    }

    /// Leaves as soon as no command runs and all results are delivered.
    fn leave_if_done(&mut self, now: Now) {
        if self.stopping.is_none() || self.is_running() {
            return;
        }
        if self.outbox.is_empty() {
            self.exit();
        } else if !self.timers.is_set(&Timer::Farewell) {
            self.timers.set(Timer::Farewell, now.mono + FAREWELL_MAX);
        }
    }

    fn exit(&mut self) {
        let left = self.outbox.count();
        let end = self.stopping.take().unwrap_or(End::Stopped);
        if self.link.is_joined() {
            self.send(FromWorker::Leave {});
            self.effects.push_back(Effect::Close);
        }
        self.link = Link::Ended;
        self.timers = Timers::default();
        self.effects.push_back(Effect::Exit(if end == End::Stopped && left > 0 {
            End::Undelivered(left)
        } else {
            end
        }));
    }

    fn send(&mut self, message: FromWorker) {
        self.effects.push_back(Effect::Send(message));
    }

    /// Sends waiting results, as many as may be on their way at once.
    fn deliver(&mut self) {
        while self.link.is_joined()
            && let Some(message) = self.outbox.next_message()
        {
            self.send(message);
        }
    }

    /// Panics if an invariant is broken. For tests.
    #[cfg(test)]
    pub(crate) fn sanity_check(&self) {
        let is_waiting = self.link.is_joined() || self.timers.next().is_some() || self.link.is_connecting();
        assert!(is_waiting || matches!(self.link, Link::Ended), "nothing will ever happen: {self:?}");
        assert!(self.stopping.is_none() || self.list.as_ref().is_none_or(List::is_empty), "{self:?}");
    }
}
