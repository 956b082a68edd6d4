//! The server of task lists: which tasks form a list, which worker has it, and when it is opened again.
//!
//! | event | enters by | what it may cause |
//! |---|---|---|
//! | a file of `new/` was read | [`Server::handle_seen`] | the task waits for others, or counts as invalid |
//! | lists and tasks were found at the start | [`Server::handle_open`], [`Server::handle_running`] | they continue |
//! | a move was made, or not | [`Server::handle_gathered`], [`Server::handle_started`], [`Server::handle_stored`], [`Server::handle_closed_list`], [`Server::handle_reopened`] | the next one; a failed one is repeated |
//! | a connection comes or goes | [`Server::handle_connected`], [`Server::handle_closed`] | its lists get a deadline |
//! | a message | [`Server::handle_message`] | |
//! | a deadline | [`Server::handle_timeout`] | |
//! | the host of the server claims and gives back | `hosted.rs` | |
//!
//! The parts: [`desk`] has the tasks that belong to no list, [`peers`] the workers and their messages, [`running`] the lists from
//! their claim to their end.

mod desk;
mod facts;
mod hosted;
mod peers;
mod running;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::engine::task::Task;
use crate::wire::{FromServer, TaskResult};
pub use api::config::ListServerSection as Settings;
use base::journal::{Journal, LogLine};
use base::lists::{ListTaskId, RunningName};
use base::tdf::WorkerName;
use base::timers::Timers;
use base::{Mono, Now};

use desk::Desk;
pub use desk::Sighting;
pub use facts::Facts;
use facts::PublishedFacts;
use peers::Peers;
use running::Running;

/// Time between two scans of `new/`, a safety net for file systems whose changes the kernel does not report.
const SCAN_INTERVAL: Duration = Duration::from_secs(60);

/// Pause before a failed move is repeated: a full disk is not emptied sooner.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// One connection of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connection(pub u64);

/// The tasks of a list, in the order in which they run.
pub type Tasks = BTreeMap<ListTaskId, Task>;

/// An instruction to the shell; the order matters. Moves that can fail come back as events.
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Read this file of `new/`; then [`Server::handle_seen`].
    Look(String),
    /// Read all files of `new/`.
    Scan,
    /// Move these tasks from `new/` to `open/<second>`; then [`Server::handle_gathered`].
    Gather(u64, BTreeSet<ListTaskId>),
    /// Move a list from `open/` to `running/` for a worker; then [`Server::handle_started`].
    Start(Connection, u64, WorkerName, u64),
    /// Write results into a running list; then [`Server::handle_stored`].
    Store(RunningName, Receipt, Vec<Ended>),
    /// Move a list, all of whose tasks have ended at this second, to `closed/`, and its tasks onwards; then
    /// [`Server::handle_closed_list`].
    Close(RunningName, u64),
    /// Move these tasks of a list, which have ended, to a closed list of their own, and the rest to `open/`; then
    /// [`Server::handle_reopened`].
    Reopen(RunningName, BTreeSet<ListTaskId>, u64),
    /// Send this to a worker.
    Send(Connection, FromServer),
    /// Close a connection after its queued messages.
    Hangup(Connection),
    /// Drop a connection.
    Abort(Connection),
}

/// A task that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The task.
    pub task: Task,
    /// The result.
    pub result: Arc<TaskResult>,
}

/// Where the acknowledgement of results goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The connection that has sent them.
    pub connection: Connection,
    /// The number of their message.
    pub number: u64,
}

/// The outcome of an [`Effect::Gather`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gathered {
    /// The second that names the list.
    pub second: u64,
    /// The tasks that are in it.
    pub moved: BTreeSet<ListTaskId>,
    /// Why others are still in `new/`. Without a reason, they have vanished.
    pub failure: Option<String>,
}

/// Why a list cannot be claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The folder is gone.
    Vanished,
    /// The system refuses the move.
    Stuck(String),
}

/// The reason for a deadline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The oldest task without a list has waited for others long enough.
    Age,
    /// A file of `new/` may be complete.
    Recheck(String),
    /// All files of `new/` are read again.
    Scan,
    /// Failed moves are repeated.
    Retry,
    /// A wrong secret is answered.
    Refuse(Connection),
    /// A worker has been silent for too long.
    Silence(Connection),
    /// A list has not been finished in time.
    Lost(RunningName),
}

/// The server of one folder.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    desk: Desk,
    /// Lists that are being moved from `new/` to `open/`, by the second that they were to have.
    gathering: BTreeMap<u64, Tasks>,
    open: BTreeMap<u64, Tasks>,
    /// Lists that are being moved from `open/` to `running/`.
    starting: BTreeMap<u64, Tasks>,
    running: BTreeMap<RunningName, Running>,
    /// The ids of all tasks that are in a list.
    listed: BTreeSet<ListTaskId>,
    peers: Peers,
    facts: PublishedFacts,
    /// Whether a failed move has been logged since the last one that succeeded.
    is_stuck: bool,
    timers: Timers<Timer>,
    effects: VecDeque<Effect>,
    journal: Journal,
}

impl Server {
    /// A server without any tasks; existing tasks follow.
    #[must_use]
    pub fn new(settings: Settings, now: Now) -> Self {
        let mut timers = Timers::default();
        timers.set(Timer::Scan, now.mono + SCAN_INTERVAL);
        Self {
            settings,
            desk: Desk::default(),
            gathering: BTreeMap::new(),
            open: BTreeMap::new(),
            starting: BTreeMap::new(),
            running: BTreeMap::new(),
            listed: BTreeSet::new(),
            peers: Peers::default(),
            facts: PublishedFacts::default(),
            is_stuck: false,
            timers,
            effects: VecDeque::new(),
            journal: Journal::default(),
        }
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
    pub fn poll_timeout(&self) -> Option<(Mono, &Timer)> {
        self.timers.next()
    }

    /// The facts, if they have changed since the last call.
    pub fn take_facts(&mut self) -> Option<Facts> {
        self.facts.take()
    }

    /// A deadline has passed.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some(timer) = self.timers.pop_due(now.mono) {
            match timer {
                Timer::Age => self.form_lists(now, false),
                Timer::Recheck(name) => self.effects.push_back(Effect::Look(name)),
                Timer::Scan => {
                    self.timers.set(Timer::Scan, now.mono + SCAN_INTERVAL);
                    self.effects.push_back(Effect::Scan);
                }
                Timer::Retry => self.retry(now),
                Timer::Refuse(connection) => self.refuse_secret(now, connection),
                Timer::Silence(connection) => self.cut_silent(now, connection),
                Timer::Lost(list) => {
                    self.journal.warn(format!("{list} was not finished in time: it is opened again"));
                    self.lose(now, &list);
                }
            }
        }
    }

    /// A move has failed, and is repeated later.
    fn stick(&mut self, now: Now, reason: &str) {
        if !std::mem::replace(&mut self.is_stuck, true) {
            self.journal.error(format!("{reason}; nothing is lost, and it is tried again each second"));
        }
        self.timers.set_earlier(Timer::Retry, now.mono + RETRY_PAUSE);
    }

    fn unstick(&mut self) {
        if std::mem::take(&mut self.is_stuck) {
            self.journal.info("moves succeed again");
        }
    }

    fn retry(&mut self, now: Now) {
        self.form_lists(now, false);
        self.assign(now);
        self.retry_lists();
    }

    /// Panics if an invariant is broken. For tests.
    #[cfg(test)]
    pub(crate) fn sanity_check(&self) {
        let lists = self.gathering.values().chain(self.open.values()).chain(self.starting.values());
        let mut ids: Vec<ListTaskId> = lists.flat_map(BTreeMap::keys).copied().collect();
        ids.extend(self.running.values().flat_map(Running::ids));
        let all: BTreeSet<ListTaskId> = ids.iter().copied().collect();
        assert_eq!(ids.len(), all.len(), "a task is in two lists: {self:?}");
        assert_eq!(all, self.listed);
        assert!(self.open.values().all(|tasks| !tasks.is_empty()), "an open list without tasks");
        self.running.values().for_each(Running::sanity_check);
        assert!(self.open.is_empty() || !self.peers.has_claimer() || self.is_stuck, "a worker waits beside a list");
    }
}
