//! The process of a prompt master: one thread, one wait, sockets and folders around the engine.
//!
//! A turn is one wait; then ready events go through the engine one by one, each followed by its effects: after a DONE, the
//! next prompt is on its way before the next message is read. No move waits for the disk ([`sync`]). [`folders`] has
//! the files, [`scan`] finds new ones, [`incoming`] has the results that workers send, [`fails`] and [`notes`] the data for a restart,
//! [`start`] the start, [`hosted_master`] the master inside a controller.

mod error;
mod fails;
mod folders;
mod hosted_master;
mod incoming;
mod line_log;
mod notes;
mod notices;
mod scan;
mod start;
mod sync;
mod tails;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};

use crate::master::engine::{Connection, Destination, Effect, FileName, Master, Moved, Totals};
use crate::wire::{FromWorker, MASTER_FRAME_BYTES_MAX, MessageError, WORKER_FRAME_BYTES_MAX};
use base::{Now, Origin, Usd};
use proc::lock::StateLock;
use proc::signals::Signals;
use proc::{clock, logging};
use zmtp::json::json_server::{Arrived, JsonServer, LinkLimits};

pub use error::PromptError;
use fails::FailLog;
use folders::Folders;
pub use hosted_master::HostedMaster;
use incoming::Incoming;
use notes::Notes;
pub use notices::Audience;
use notices::Notices;
use scan::PendingWatch;
use sync::Syncer;

const LISTENER: Token = Token(0);
const SIGNALS: Token = Token(1);
const WATCH: Token = Token(2);
const WAKER: Token = Token(3);
const KEYS: Token = Token(4);
const ANSWERS: Token = Token(5);
/// Number of the first connection; the number of a connection is its token.
const CONNECTIONS: u64 = 16;

/// The queue of a peer that does not read has room for one prompt, and more checks than it may leave unanswered.
const LINK_LIMITS: LinkLimits =
    LinkLimits { read_bytes_max: WORKER_FRAME_BYTES_MAX, queued_bytes_max: MASTER_FRAME_BYTES_MAX + (1 << 20) };

/// Events of one wait.
const EVENTS: usize = 1024;

/// The end of a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The summary of the whole run: of this master, and of those before it since the last one that left no prompt.
    pub totals: Totals,
    /// True if a second signal ended the master before its connections were closed.
    pub forced: bool,
}

/// The options of a master, which differ between a stand-alone and a hosted one.
#[derive(Clone, Copy, Debug)]
pub struct MasterOptions<'a> {
    /// The folder with `.tasks`.
    pub root: &'a Path,
    /// The TCP port; 0 takes a free one.
    pub port: u16,
    /// Keep running when no file is left.
    pub keep_alive: bool,
    /// Number of prompts that are handed out before the master pauses.
    pub starts_max: Option<u64>,
    /// Time limit of a run whose file names none.
    pub timeout: Option<Duration>,
    /// The cost of all prompts at which the master pauses.
    pub cost_max: Option<Usd>,
    /// The receivers of notices about the end and about failures.
    pub audience: &'a Audience,
}

/// A master with its port and folders, ready for [`PromptMaster::run`].
pub struct PromptMaster {
    engine: Master,
    folders: Folders,
    fails: FailLog,
    notes: Notes,
    incoming: Incoming,
    notices: Notices,
    poll: Poll,
    server: JsonServer,
    address: SocketAddr,
    watch: PendingWatch,
    syncer: Option<Syncer>,
    waker: Arc<Waker>,
    /// True after the engine has reported the end.
    over: bool,
    /// Held until the process ends or the master is dropped.
    _lock: StateLock,
}

impl PromptMaster {
    /// The line that announces readiness and the address.
    #[must_use]
    pub fn ready_line(&self) -> String {
        format!("llts prompt master ready: {} root {}", self.address, self.folders.root.display())
    }

    /// Runs until all prompts are done, or until a signal. With `keep_alive` only a signal ends it.
    ///
    /// # Errors
    /// [`PromptError::System`], when the master cannot wait for events.
    pub fn run(mut self, mut signals: Option<Signals>) -> Result<End, PromptError> {
        log::info!("prompt master ready: {} for {}", self.address, self.folders.root.display());
        if let Some(signals) = &signals {
            self.poll.registry().register(&mut SourceFd(&signals.as_fd().as_raw_fd()), SIGNALS, Interest::READABLE)?;
        }
        let mut events = Events::with_capacity(EVENTS);
        let mut signals_seen = 0;
        self.settle(clock::now());
        while !self.over && signals_seen < 2 {
            match self.poll.poll(&mut events, self.timeout(clock::now())) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            let now = clock::now();
            for event in &events {
                match event.token() {
                    LISTENER => self.server.note_listener(),
                    WATCH => self.watch.note_readable(),
                    ANSWERS => self.read_answers(now),
                    KEYS => self.server.note_keys(),
                    WAKER => self.handle_stop(now, "its host stops"),
                    SIGNALS => {
                        for signal in signals.as_mut().map(Signals::read).unwrap_or_default() {
                            signals_seen += 1;
                            self.handle_stop(now, signal.as_str());
                        }
                    }
                    Token(number) => self.handle_link(now, Connection(number as u64), event.is_writable()),
                }
            }
            self.go_on(now);
        }
        Ok(self.end())
    }

    fn end(&mut self) -> End {
        let now = clock::now();
        let (own, forced) = (self.engine.totals(now), !self.over);
        let done_before = self.notes.done_before();
        let failed_before =
            self.fails.failed_before().iter().filter(|file| self.folders.has_failed(file)).count() as u64;
        let since = self.notes.noted().since.unwrap_or(now.wall);
        // The wall clock may have been set back meanwhile.
        let running_for = now.wall.since(since).max(own.running_for);
        let totals = Totals {
            running_for,
            all: own.all + done_before + failed_before,
            succeeded: own.succeeded + done_before,
            failed: own.failed + failed_before,
            ..own
        };
        if totals.left() == 0 && !forced {
            self.fails.end_batch();
            self.notes.end_batch();
        }
        let end = End { totals, forced };
        self.notices.report_end(&self.folders.root, &end);
        end
    }

    /// The time-out of the wait: zero while input is left unread.
    fn timeout(&self, now: Now) -> Option<Duration> {
        if self.watch.is_unread() {
            return Some(Duration::ZERO);
        }
        let deadlines = self.engine.poll_timeout().map(|(at, _)| at).into_iter().chain(self.watch.rescan());
        deadlines.map(|at| at.since(now.mono)).chain(self.server.timeout(now.mono)).min()
    }

    /// Work that does not belong to one event: new connections, unread input, deadlines.
    fn go_on(&mut self, now: Now) {
        self.check_keys(now);
        self.accept(now);
        for number in self.server.take_unread() {
            self.receive(now, Connection(number));
        }
        if self.watch.is_unread() {
            self.read_watch(now);
        }
        let now = clock::now();
        if self.watch.rescan().is_some_and(|at| at <= now.mono) {
            self.scan(now);
        }
        self.engine.handle_timeout(now);
        self.settle(now);
    }

    fn handle_stop(&mut self, now: Now, why: &str) {
        log::info!("{why}: stopping the prompt master");
        self.engine.handle_stop(now);
    }

    fn accept(&mut self, now: Now) {
        while let Some(Arrived { number, address, refusal }) = self.server.accept() {
            self.engine.handle_connected(now, Connection(number), Origin::new(address));
            if let Some(why) = refusal {
                self.engine.handle_stranger(Connection(number), why);
            }
            self.settle(now);
        }
    }

    fn handle_link(&mut self, now: Now, connection: Connection, writable: bool) {
        if !self.server.has(connection.0) {
            return;
        }
        if writable && !self.server.flush(connection.0) {
            return self.lose(now, connection);
        }
        self.receive(now, connection);
    }

    /// A removed key closes the connections that have it.
    fn check_keys(&mut self, now: Now) {
        for number in self.server.look_at_keys(now) {
            log::warn!("connection {number} is closed: its key is not authorised any more");
            self.lose(now, Connection(number));
        }
    }

    fn receive(&mut self, now: Now, connection: Connection) {
        let received = self.server.receive(connection.0, |object| {
            let malformed = |error| MessageError::Malformed(format!("{error}"));
            object.map_err(malformed).and_then(FromWorker::parse)
        });
        if received.is_authorised {
            self.engine.handle_authorised(connection);
        }
        for message in received.messages {
            match message {
                Ok(message) => self.engine.handle_message(now, connection, message),
                Err(error) => self.engine.handle_bad_message(now, connection, &error),
            }
            self.settle(now);
        }
        if let Some(reason) = received.refusal {
            self.engine.handle_bad_message(now, connection, &MessageError::Malformed(reason));
            self.settle(now);
        }
        if received.is_closed {
            self.lose(now, connection);
        }
    }

    fn lose(&mut self, now: Now, connection: Connection) {
        self.server.abort(connection.0);
        self.engine.handle_closed(now, connection);
        self.settle(now);
    }

    /// Carries out the engine's decisions.
    fn settle(&mut self, now: Now) {
        while let Some(effect) = self.engine.poll_effect() {
            match effect {
                Effect::Send(connection, message) => {
                    if self.server.has(connection.0) && !self.server.send(connection.0, message.encode()) {
                        self.engine.handle_closed(now, connection);
                    }
                }
                Effect::Close(connection) => {
                    if !self.server.close(connection.0) {
                        self.engine.handle_closed(now, connection);
                    }
                }
                Effect::Abort(connection) => self.server.abort(connection.0),
                Effect::Claim(file) => {
                    let claimed = self.folders.claim(&file);
                    self.engine.handle_claimed(now, claimed);
                    self.request_sync();
                }
                Effect::Move(file, destination) => {
                    let moved = self.move_out(&file, &destination);
                    self.engine.handle_moved(now, &file, moved);
                    self.request_sync();
                }
                Effect::Scan => self.scan(now),
                Effect::NoteFails(file, fails) => self.fails.note(&file, fails),
                Effect::NoteRun(file, run, away) => self.notes.note_run(&file, &run, away),
                Effect::NoteLosses(file, losses) => self.notes.note_losses(&file, losses),
                Effect::NoteGate(gate, until) => self.notes.note_gate(&gate, until),
                Effect::NotePause(reason) => self.notes.note_pause(reason.as_deref()),
                Effect::NoteCost(sum, usual) => self.notes.note_cost(sum, usual),
                Effect::NoteCostMax(max) => self.notes.note_cost_max(max),
                Effect::StorePart(part) => {
                    if let Err(reason) = self.incoming.store(&part) {
                        self.engine.handle_room(now, Err(reason));
                    }
                }
                Effect::StoreAnswer(run, file, destination) => {
                    if let Some(outcome) = self.incoming.place(&run, &file, &destination) {
                        self.engine.handle_answer_stored(now, &run, outcome);
                    }
                }
                Effect::ReadTail(client, query) => {
                    let part = tails::read_tail(&self.folders, &query);
                    self.engine.handle_tail_read(now, client, part);
                }
                Effect::Exit => self.over = true,
            }
        }
        logging::write(self.engine.take_log());
    }

    fn move_out(&mut self, file: &FileName, destination: &Destination) -> Moved {
        let fails = matches!(destination, Destination::Failed { .. });
        if fails {
            // Before the move: otherwise a master that is killed in between finds the file in working/ without its failure.
            self.fails.note_failed(file);
        }
        if let Some(run) = self.notes.run_of(file) {
            self.incoming.forget(run);
        }
        let moved = self.folders.move_out(file, destination);
        match &moved {
            // Before the report is acknowledged, which its worker then forgets.
            Moved::Stuck(_) => self.notes.note_end(file, destination),
            Moved::To(_) | Moved::Vanished => self.notes.end_run(file),
        }
        if let (Moved::To(_), Destination::Done) = (&moved, destination) {
            self.notes.note_done();
        }
        if let Moved::To(name) = &moved
            && fails
        {
            self.fails.note_failed(name);
            self.fails.count_here(name);
            self.notices.report_failed(name);
        }
        moved
    }

    fn read_answers(&mut self, now: Now) {
        while let Some((run, outcome)) = self.incoming.next_placed() {
            self.engine.handle_answer_stored(now, &run, outcome);
            self.settle(now);
        }
    }

    fn request_sync(&self) {
        if let Some(syncer) = &self.syncer {
            syncer.note();
        }
    }
}
