//! The prompt master: hands the files of `pending/` to workers, one each, and moves them on as the workers report.
//!
//! | event | enters by | what it may cause |
//! |---|---|---|
//! | a file appears | [`Master::handle_found`], [`Master::handle_scanned`] | it waits, and goes to an idle worker |
//! | an answer was stored, or there is no room | [`Master::handle_answer_stored`], [`Master::handle_room`] | the prompt is done; or no prompt is handed out |
//! | a file was moved, or not | [`Master::handle_claimed`], [`Master::handle_moved`] | the prompt is sent; or the next file is tried |
//! | a connection comes or goes, or proves its key | [`Master::handle_connected`], [`Master::handle_closed`], [`Master::handle_authorised`] | the prompt of its worker waits again |
//! | a message, or an invalid one | [`Master::handle_message`], [`Master::handle_bad_message`] | the worker changes its state |
//! | an order to stop | [`Master::handle_stop`] | every connection is closed |
//! | a deadline | [`Master::handle_timeout`] | TIMER and TIMEOUT_CHECK of the document, docs/sources/prompts.md |
//!
//! The parts: [`files`] has the files that wait or leave, [`peers`] the connections, [`peer`] the state of each,
//! [`dispatch`] the conditions for the next hand-out, [`handout`] the way of a file to a worker and back, [`talk`] the messages that
//! a worker may send in each state, [`pace`] the time between messages to it, [`answers`] the reports that wait until their answer
//! is stored, [`gates`] the closed gates, [`rests`] limits, pauses and orders, [`costs`] the budget, [`leases`] the prompts of workers
//! without a connection, [`tails`] the clients that follow an output, [`progress`] the counts and the pace, [`phase`] the life of the
//! master, [`refusals`] the log lines about refused connections.
//!
//! ```text
//! stranger --JOIN--> (settling) --> idle --claim--> (claiming) --REQUEST--> requesting --REQUEST_ACK--> working
//!                                    ^                                                                     |
//!                                    +------------------------ DONE, FAILED, USAGE_LIMITED ----------------+
//! any of them --LEAVE, closed, no acknowledgement in time--> disconnecting --closed--> forgotten
//! ```
//!
//! A worker settles for 200 ms after each message to it. The document's workers parse the result of one `recv` as one JSON
//! text, so a REQUEST in the same segment as JOIN_ACK or CHECK would end them. A worker that declares in its JOIN that it
//! splits the stream is idle at once.
//!
//! The document's threads are timers and events here. COMPLETED is a TIMER that finds no file left, or the same check after
//! the last result; DISCONNECT is [`Master::handle_closed`], or its time-out. A worker is identified by its connection,
//! because two may have the same name. A file is in one place at any time: a disconnected worker returns its file before the
//! master forgets the worker, whose later messages do not count. A report on a prompt counts only after the worker has
//! acknowledged that prompt: a second DONE for the previous file never ends the next one.

mod answers;
mod costs;
mod dispatch;
mod effect;
mod file;
mod files;
mod gates;
mod handout;
mod invariants;
mod leases;
mod pace;
mod peer;
mod peers;
mod phase;
mod progress;
mod refusals;
mod rests;
mod summary;
mod tails;
mod talk;

#[cfg(test)]
mod scenarios;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

pub use effect::{ClaimError, Claimed, Connection, Destination, Effect, Moved, NotStored, Timer, Totals};
pub use file::{FileName, REASON_ENDING, count_prompts, prompts_among};
pub use handout::TIME_UP;
pub use leases::KeptRun;

use crate::wire::{FromMaster, Front, RequestId};
use base::journal::{Journal, LogLine};
use base::timers::Timers;
use base::{Mono, Now, Usd};

use costs::Costs;
use dispatch::Dispatch;
use files::Files;
use gates::Gates;
use handout::UNTAKEN;
use leases::Orphans;
use peer::{AckKind, Queued};
use peers::Peers;
use phase::Phase;
use progress::Progress;
use refusals::Refusals;
use tails::Tails;

/// The engine's part of the configuration, section `[prompt]`.
#[derive(Clone)]
pub struct Settings {
    /// Interval between two TIMERs: `TIMER_INTERVAL`.
    pub timer_interval: Duration,
    /// Time limit for an acknowledgement of a short message: `REQUEST_TIMEOUT`.
    pub request_timeout: Duration,
    /// Time limit for JOIN: `JOIN_TIMEOUT`.
    pub join_timeout: Duration,
    /// Time limit for closing a connection: `DISCONNECT_TIMEOUT`.
    pub disconnect_timeout: Duration,
    /// Time limit for closing all connections at the end: `SHUTDOWN_TIMEOUT`.
    pub shutdown_timeout: Duration,
    /// How long the gates of a file stay closed if the worker names no time: `RETRY_AFTER`.
    pub retry_after: Duration,
    /// Keep running when no file is left: `KEEP_ALIVE`.
    pub keep_alive: bool,
    /// Maximum number of workers: `WORKERS_MAX`.
    pub workers_max: usize,
    /// Maximum number of connections that the system has descriptors for.
    pub connections_max: usize,
    /// Maximum bytes of unacknowledged prompts: `SENDING_BYTES_MAX`.
    pub sending_bytes_max: usize,
    /// Secret that a worker must send: `SECRET`.
    pub secret: Option<String>,
    /// Pause before a wrong secret is answered: `REFUSAL_PAUSE`.
    pub refusal_pause: Duration,
    /// How long a prompt is kept for a worker without a connection: `LEASE`.
    pub lease: Duration,
    /// Bytes of each output that a worker may send: `RESULT_BYTES_MAX`.
    pub result_bytes_max: u64,
    /// The identity of the root.
    pub root_id: String,
    /// Number of prompts that are handed out before the master pauses.
    pub starts_max: Option<u64>,
    /// Time limit of a run whose file names none.
    pub timeout: Option<Duration>,
    /// Number of workers that a prompt may lose before it is given up; `None` is any number: `LOSSES_MAX`.
    pub losses_max: Option<u32>,
    /// The cost of all prompts at which the master pauses.
    pub cost_max: Option<Usd>,
}

/// Bytes of a prompt that a slow connection takes in a second: 8 megabits. A longer prompt has more time for its acknowledgement, also
/// at a worker that reads nothing.
const SENT_PER_SECOND: u64 = 1 << 20;

/// Connections beyond those of all workers: status clients, and connections that have not sent JOIN yet.
const STRANGERS_MAX: usize = 64;

/// The state of a prompt master. See the [module](self).
pub struct Master {
    settings: Settings,
    files: Files,
    peers: Peers,
    gates: Gates,
    orphans: Orphans,
    dispatch: Dispatch,
    progress: Progress,
    costs: Costs,
    tails: Tails,
    refusals: Refusals,
    timers: Timers<Timer>,
    effects: VecDeque<Effect>,
    journal: Journal,
    /// Number of messages that had no meaning in their state.
    ignored: u64,
    phase: Phase,
}

impl Master {
    /// A master without workers, which scans for files at once. `done` and `failed` are the numbers of prompts in these
    /// folders; the seed determines all request ids.
    #[must_use]
    pub fn new(settings: Settings, seed: u64, now: Now, done: u64, failed: u64) -> Self {
        let cost_max = settings.cost_max;
        let mut timers = Timers::default();
        timers.set(Timer::Tick, now.mono + settings.timer_interval);
        Self {
            settings,
            files: Files::default(),
            peers: Peers::new(seed),
            gates: Gates::default(),
            orphans: Orphans::new(),
            dispatch: Dispatch::default(),
            progress: Progress::new(now.mono, done, failed),
            costs: Costs::with_max(cost_max),
            tails: Tails::default(),
            refusals: Refusals::default(),
            timers,
            effects: VecDeque::from([Effect::Scan]),
            journal: Journal::default(),
            ignored: 0,
            phase: Phase::Running,
        }
    }

    /// Continues the failures of an earlier master: its last [`Effect::NoteFails`] for each file.
    #[must_use]
    pub fn with_fails(mut self, fails: BTreeMap<FileName, u32>) -> Self {
        self.files.restore(fails);
        self
    }

    /// Adds the names of the prompts that are in `failed/`.
    #[must_use]
    pub fn with_failed(mut self, names: BTreeSet<FileName>) -> Self {
        self.progress.restore_failed(names);
        self
    }

    /// The log lines since the last call; see [`base::journal`].
    pub fn take_log(&mut self) -> VecDeque<LogLine> {
        self.journal.take()
    }

    /// The next effect. The turn ends when there is none.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        // A note precedes the next hand-out of its file.
        if let Some((file, fails)) = self.files.next_note() {
            return Some(Effect::NoteFails(file, fails));
        }
        let effect = self.effects.pop_front();
        if effect.is_none() && self.is_over() {
            self.phase.exit();
            return Some(Effect::Exit);
        }
        effect
    }

    /// Whether a stopping master has no connection and no move left.
    fn is_over(&self) -> bool {
        let files_rest = self.dispatch.claim().is_none() && !self.files.is_moving();
        matches!(self.phase, Phase::Stopping(_)) && self.peers.is_empty() && files_rest
    }

    /// The next deadline, and its reason.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Mono, &Timer)> {
        self.timers.next()
    }

    /// Handles everything that is due.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some(timer) = self.timers.pop_due(now.mono) {
            match timer {
                Timer::Tick => self.tick(now),
                Timer::Join(connection) if self.renew_tail(now, connection) => {}
                Timer::Join(connection) => self.refuse(now, connection, "JOIN did not come in time"),
                Timer::Refuse(connection) => self.reject_guess(now, connection),
                Timer::Pause(connection) => self.end_pause(now, connection),
                Timer::Acknowledge(connection, request) => self.ack_timeout(now, connection, &request),
                Timer::Run(connection) => self.run_too_long(now, connection),
                Timer::Rest(connection) => self.be_idle(now, connection),
                Timer::Gate(gate) => self.open_gate(gate),
                Timer::Lease(run) => self.end_lease(&run),
                Timer::Disconnect(connection) => {
                    self.effects.push_back(Effect::Abort(connection));
                    self.forget(connection);
                }
                Timer::Shutdown => {
                    self.journal.warn(format!("{} connections do not close", self.peers.len()));
                    self.phase.exit();
                    self.effects.push_back(Effect::Exit);
                }
            }
        }
        self.hand_out(now);
    }

    /// A file is in `pending/`: it is new there, or its content has changed.
    pub fn handle_found(&mut self, now: Now, file: FileName, front: &Front) {
        self.files.found(file, front);
        self.hand_out(now);
    }

    /// Whether the master believes that a file of this name is in `failed/`.
    #[must_use]
    pub fn has_failed(&self, file: &FileName) -> bool {
        self.progress.has_failed(file)
    }

    /// A failed file is in `pending/` again, and does not count as failed.
    pub fn handle_retried(&mut self, file: &FileName) {
        self.progress.retried(file);
    }

    /// Whether this file of `pending/` is known, so that it needs no [`Master::handle_found`].
    #[must_use]
    pub fn is_known(&self, file: &FileName) -> bool {
        self.files.is_known(file)
    }

    /// All names in `pending/`, after an [`Effect::Scan`].
    pub fn handle_scanned(&mut self, now: Now, present: &BTreeSet<FileName>) {
        let is_empty = self.files.scanned(present);
        let retries = self.files.retry_moves();
        self.effects.extend(retries.map(|(file, destination)| Effect::Move(file, destination)));
        if is_empty && !self.settings.keep_alive && self.working() == 0 {
            // The document's COMPLETED.
            self.journal.info("no file is left in pending/ and working/");
            self.broadcast(&FromMaster::Completed);
            self.handle_stop(now);
        }
        self.hand_out(now);
    }

    fn broadcast(&mut self, message: &FromMaster) {
        let workers = self.peers.iter().filter(|(_, peer)| peer.is_worker() && peer.may_receive());
        self.effects.extend(workers.map(|(connection, _)| Effect::Send(connection, message.clone())));
    }

    /// Closes every connection; [`Effect::Exit`] follows when they are closed, or after the time limit.
    pub fn handle_stop(&mut self, now: Now) {
        if !self.phase.stop(now.mono) {
            return;
        }
        self.timers.clear(&Timer::Tick);
        self.timers.set(Timer::Shutdown, now.mono + self.settings.shutdown_timeout);
        // A client that follows a finished prompt gets the rest of its output.
        let all = self.peers.iter().map(|(connection, _)| connection);
        let all: Vec<Connection> = all.filter(|connection| !self.tails.is_followed_by(*connection)).collect();
        for connection in all {
            // A worker that resumes may go on under the next master.
            let lease = self.lease_of(connection);
            self.disconnect(now, connection, "the master stops", lease);
        }
    }

    /// The document's TIMER: count files, check workers.
    fn tick(&mut self, now: Now) {
        self.timers.set(Timer::Tick, now.mono + self.settings.timer_interval);
        if let Some(more) = self.refusals.take_suppressed(now.mono) {
            self.journal.warn(format!("{more} more connections were refused"));
        }
        self.count_files();
        let workers: Vec<Connection> =
            self.peers.iter().filter(|(_, peer)| peer.is_worker()).map(|(connection, _)| connection).collect();
        for connection in workers {
            self.enqueue(now, connection, Queued::Check);
        }
    }

    /// The document's check whether a file is left, as part of a TIMER.
    fn count_files(&mut self) {
        self.files.start_count();
        self.effects.push_back(Effect::Scan);
    }

    /// Counts the files at once after the last result: the end need not wait for the next TIMER.
    fn count_files_if_none_is_known(&mut self) {
        if !self.settings.keep_alive && !self.phase.is_stopping() && self.files.pending() == 0 && self.working() == 0 {
            self.count_files();
        }
    }

    /// Returns a new id, under which a message must be acknowledged in time. The message is, or follows, a prompt of this many bytes.
    fn expect_ack(&mut self, now: Now, connection: Connection, kind: AckKind, bytes: usize) -> RequestId {
        let request = self.peers.expect_ack(connection, kind);
        let timer = Timer::Acknowledge(connection, request.clone());
        let sending = Duration::from_secs(bytes as u64 / SENT_PER_SECOND);
        self.timers.set(timer, now.mono + self.settings.request_timeout + sending);
        request
    }

    /// The document's TIMEOUT_CHECK. An id that is acknowledged has no timer.
    fn ack_timeout(&mut self, now: Now, connection: Connection, request: &RequestId) {
        let Some(peer) = self.peers.get(connection) else { return };
        let Some(kind) = peer.outstanding().get(request) else { return };
        let why = if *kind == AckKind::Request { UNTAKEN } else { "it has not answered in time" };
        self.journal.warn(format!("{} has not acknowledged a {kind:?} in time; disconnecting it", peer.name()));
        let lease = self.lease_of(connection);
        self.disconnect(now, connection, why, lease);
    }
}
