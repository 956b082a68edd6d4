//! The process of a server: one loop, one wait; sockets and folders around the engine.
//!
//! A turn is one wait; then ready events go through the engine one by one, each followed by its effects. The loop makes the moves that
//! a worker waits for, and reads new files; results are written by the [`super::keeper`].

pub(super) mod own;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::Path;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use serde_json::json;

use self::own::Own;
use super::folders::{Folders, State, is_candidate, write_over};
use super::keeper::{Done, Job, Keeper};
use super::{CLOSE, FACTS, LOCK, ListsError, recovery};
use crate::engine::server::{Connection, Effect, Server, Settings};
use crate::wire::{FromWorker, SERVER_FRAME_BYTES_MAX, worker_frame_bytes_max};
use api::config::{Config, Durability};
use base::{Loopback, Now};
use proc::background::Background;
use proc::files::folder_watch::{Change, Watch};
use proc::lock::{LockError, StateLock};
use proc::signals::Signals;
use proc::{clock, limits, logging};
use zmtp::json::json_server::{Arrived, JsonServer, LinkLimits};

const LISTENER: Token = Token(0);
const SIGNALS: Token = Token(1);
const WATCH: Token = Token(2);
const KEEPER: Token = Token(3);
const OWN_NEWS: Token = Token(4);
/// The number before the first connection; the number of a connection is its token.
const CONNECTIONS: u64 = 15;

/// Events of one wait.
const EVENTS: usize = 1024;

/// A server with its port and folders, ready for [`ListsServer::run`].
pub struct ListsServer {
    pub(super) engine: Server,
    folders: Folders,
    poll: Poll,
    server: JsonServer,
    address: SocketAddr,
    keeper: Background<Job, Done>,
    watch: Option<Watch>,
    /// Whether the watch may have more changes after its turn.
    watch_unread: bool,
    is_vanished: bool,
    /// The agents of the controller that this server is a part of.
    pub(super) own: Option<Own>,
    /// Held until the process ends or the server is dropped.
    _lock: StateLock,
}

impl ListsServer {
    /// Opens the folders and the port, and finds the lists that exist.
    ///
    /// # Errors
    /// [`ListsError`].
    pub fn start(config: &Config, dir: &Path, port: u16) -> Result<Self, ListsError> {
        let folders = Folders::make(dir)?;
        let lock = StateLock::acquire(folders.root(), LOCK).map_err(|error| match error {
            LockError::Held { pid, .. } => ListsError::InUse { path: folders.root().to_owned(), pid },
            error @ LockError::Io { .. } => ListsError::Lock(error),
        })?;
        let descriptors = limits::raise_descriptor_limit()?;
        let lists = &config.lists;
        if let Some(warning) = lists.server.secret.as_ref().and_then(|secret| secret.warning("lists")) {
            log::warn!("{warning}");
        }
        let address = SocketAddr::new(lists.bind, port);
        let poll = Poll::new()?;
        let link_limits = LinkLimits {
            read_bytes_max: worker_frame_bytes_max(lists.server.output_bytes_max),
            queued_bytes_max: 2 * SERVER_FRAME_BYTES_MAX,
        };
        // The secret admits whichever user shows it.
        let loopback = if lists.server.secret.is_some() { Loopback::Open } else { config.network.loopback };
        let server = JsonServer::listen(&poll, address, LISTENER, CONNECTIONS, link_limits, loopback)
            .map_err(|source| ListsError::Listen { address, source })?;
        let address = server.address()?;
        if !base::is_loopback(lists.bind) {
            log::warn!("the server of task lists listens on {address}, which other machines can reach");
        }
        let now = clock::now();
        let mut engine = Server::new(settings(config, descriptors), now);
        let watch = open_watch(&poll, &folders);
        recovery::recover(&folders, &mut engine, now)?;
        let keeper = Keeper::start(folders.clone(), config.controller.durability == Durability::Disk)?;
        poll.registry().register(&mut SourceFd(&keeper.as_fd().as_raw_fd()), KEEPER, Interest::READABLE)?;
        keeper.give(Job::FinishLeftovers);
        let mut server = Self {
            engine,
            folders,
            poll,
            server,
            address,
            keeper,
            watch,
            watch_unread: true,
            is_vanished: false,
            own: None,
            _lock: lock,
        };
        // Before it is ready: a folder without tasks is not written to afterwards.
        server.publish();
        Ok(server)
    }

    /// The line that announces readiness and the address.
    #[must_use]
    pub fn ready_line(&self) -> String {
        format!("llts spool server ready: {} dir {}", self.address, self.folders.root().display())
    }

    /// Takes the agents of a controller in as a worker.
    pub(super) fn host(&mut self, own: Own) -> Result<(), ListsError> {
        let fd = own.link.bell.as_fd().as_raw_fd();
        self.poll.registry().register(&mut SourceFd(&fd), OWN_NEWS, Interest::READABLE)?;
        self.own = Some(own);
        Ok(())
    }

    /// Runs until a signal, or until its controller stops.
    ///
    /// # Errors
    /// [`ListsError::System`], when it cannot wait for events; [`ListsError::Vanished`].
    pub fn run(mut self, mut signals: Option<Signals>) -> Result<(), ListsError> {
        log::info!("server of task lists ready: {} for {}", self.address, self.folders.root().display());
        if let Some(signals) = &signals {
            self.poll.registry().register(&mut SourceFd(&signals.as_fd().as_raw_fd()), SIGNALS, Interest::READABLE)?;
        }
        let mut events = Events::with_capacity(EVENTS);
        self.join_own(clock::now());
        self.scan(clock::now());
        self.drive(clock::now());
        while !self.is_stopped() {
            match self.poll.poll(&mut events, self.timeout(clock::now())) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            let now = clock::now();
            for event in &events {
                match event.token() {
                    LISTENER => self.server.note_listener(),
                    WATCH => self.watch_unread = true,
                    KEEPER => self.take_done(now),
                    OWN_NEWS => self.take_messages(now),
                    SIGNALS => {
                        if let Some(signal) = signals.as_mut().and_then(|signals| signals.read().first().copied()) {
                            log::info!("{signal}: stopping the server of task lists");
                            self.stop();
                            return Ok(());
                        }
                    }
                    Token(number) => self.handle_link(now, number as u64, event.is_writable()),
                }
            }
            self.go_on(now);
            if self.is_vanished {
                return Err(ListsError::Vanished(self.folders.path(State::New)));
            }
        }
        self.stop();
        Ok(())
    }

    /// Stores the received results. Running lists stay, and their workers come back to the next server.
    fn stop(mut self) {
        self.keeper.finish();
    }

    fn timeout(&self, now: Now) -> Option<Duration> {
        if self.watch_unread {
            return Some(Duration::ZERO);
        }
        let deadlines = self.engine.poll_timeout().map(|(at, _)| at).into_iter().chain(self.own_timeout());
        deadlines.map(|at| at.since(now.mono)).chain(self.server.timeout(now.mono)).min()
    }

    /// Work that does not belong to one event: new connections, unread input, deadlines.
    fn go_on(&mut self, now: Now) {
        while let Some(Arrived { number, refusal, .. }) = self.server.accept() {
            self.engine.handle_connected(now, Connection(number));
            if let Some(why) = refusal {
                self.engine.handle_stranger(Connection(number), why);
            }
            self.settle(now);
        }
        for number in self.server.take_unread() {
            self.receive(now, number);
        }
        if self.watch_unread {
            self.read_watch(now);
        }
        let now = clock::now();
        self.engine.handle_timeout(now);
        self.drive(now);
        self.publish();
    }

    fn handle_link(&mut self, now: Now, number: u64, writable: bool) {
        if !self.server.has(number) {
            return;
        }
        if writable && !self.server.flush(number) {
            return self.lose(now, number);
        }
        self.receive(now, number);
    }

    fn receive(&mut self, now: Now, number: u64) {
        let received =
            self.server.receive(number, |object| object.map_err(|error| error.to_string()).and_then(FromWorker::parse));
        for message in received.messages {
            match message {
                Ok(message) => self.engine.handle_message(now, Connection(number), message),
                Err(error) => self.engine.handle_bad_message(now, Connection(number), &error),
            }
            self.settle(now);
        }
        if received.is_closed {
            self.lose(now, number);
        }
    }

    fn lose(&mut self, now: Now, number: u64) {
        self.server.abort(number);
        self.engine.handle_closed(now, Connection(number));
        self.settle(now);
    }

    fn take_done(&mut self, now: Now) {
        while let Some(done) = self.keeper.poll() {
            match done {
                Done::Stored(list, receipt, outcome) => self.engine.handle_stored(now, &list, receipt, outcome),
                Done::Closed(list, outcome) => self.engine.handle_closed_list(now, &list, outcome),
                Done::Reopened(list, outcome) => self.engine.handle_reopened(now, &list, outcome),
            }
            self.settle(now);
        }
    }

    fn read_watch(&mut self, now: Now) {
        let changes = self.watch.as_mut().and_then(Watch::read);
        self.watch_unread = changes.is_some();
        for change in changes.unwrap_or_default() {
            match change {
                // All tasks that were added before are for the lists, too.
                Change::File(name) if name == CLOSE => self.scan(now),
                Change::File(name) => self.look(now, &name.to_string_lossy()),
                Change::Everything => self.scan(now),
            }
            self.settle(now);
        }
    }

    fn look(&mut self, now: Now, name: &str) {
        let is_open = self.watch.as_ref().is_some_and(|watch| watch.is_open(name.as_ref()));
        let sighting = self.folders.look(name, is_open);
        self.engine.handle_seen(now, name, sighting);
    }

    /// Looks at all files of `new/` that the engine does not have.
    fn scan(&mut self, now: Now) {
        let new = self.folders.path(State::New);
        // Not made again, which would defeat a user who removes everything.
        self.is_vanished = new.symlink_metadata().is_err();
        if self.is_vanished {
            return;
        }
        // The folder may have been replaced.
        if let Some(Err(error)) = self.watch.as_mut().map(|watch| follow(watch, &self.folders)) {
            log::warn!("cannot watch {}: {error}", new.display());
        }
        let mut names = match self.folders.names(State::New) {
            Ok(names) => names,
            Err(error) => return log::error!("cannot look through {}: {error}", new.display()),
        };
        names.sort_unstable_by_key(|name| (name.len(), name.clone()));
        for name in names.iter().filter(|name| !self.engine.is_known(name)).collect::<Vec<_>>() {
            self.look(now, name);
            self.settle(now);
        }
        // A user asks for lists of all tasks: `llts spool close`, which waits until its file is gone. So the lists come first.
        if new.join(CLOSE).symlink_metadata().is_ok() {
            self.engine.handle_group(now);
            self.settle(now);
            if let Err(error) = std::fs::remove_file(new.join(CLOSE)) {
                log::debug!("{CLOSE}: {error}");
            }
        }
    }

    /// Carries out the engine's decisions.
    pub(super) fn settle(&mut self, now: Now) {
        while let Some(effect) = self.engine.poll_effect() {
            match effect {
                Effect::Look(name) => self.look(now, &name),
                Effect::Scan => self.scan(now),
                Effect::Gather(second, tasks) => {
                    let gathered = self.folders.gather(second, &tasks);
                    self.engine.handle_gathered(now, second, gathered);
                    self.keeper.give(Job::Sync);
                }
                Effect::Start(connection, second, worker, started) => {
                    let outcome = self.folders.start(second, &worker, started);
                    self.engine.handle_started(now, connection, second, outcome);
                    self.keeper.give(Job::Sync);
                }
                Effect::Store(list, receipt, results) => self.keeper.give(Job::Store(list, receipt, results)),
                Effect::Close(list, finished) => self.keeper.give(Job::Close(list, finished)),
                Effect::Reopen(list, done, finished) => self.keeper.give(Job::Reopen(list, done, finished)),
                Effect::Send(own::OWN, message) => self.tell_own(now, message),
                Effect::Send(Connection(number), message) => {
                    if self.server.has(number) && !self.server.send(number, message.encode()) {
                        self.engine.handle_closed(now, Connection(number));
                    }
                }
                Effect::Abort(Connection(number)) => self.server.abort(number),
                Effect::Hangup(Connection(number)) => {
                    if !self.server.close(number) {
                        self.engine.handle_closed(now, Connection(number));
                    }
                }
            }
        }
        logging::write(self.engine.take_log());
    }

    /// Writes the facts that no file shows, if they have changed.
    fn publish(&mut self) {
        let Some(facts) = self.engine.take_facts() else { return };
        let text = json!({ "invalid": facts.invalid, "late": facts.late }).to_string();
        if let Err(error) = write_over(self.folders.root(), FACTS, text.as_bytes()) {
            log::warn!("cannot write {FACTS}: {error}");
        }
    }
}

fn open_watch(poll: &Poll, folders: &Folders) -> Option<Watch> {
    let is_wanted = |name: &std::ffi::OsStr| name == CLOSE || name.to_str().is_none_or(is_candidate);
    let open = || {
        let mut watch = Watch::open(is_wanted)?.with_made();
        follow(&mut watch, folders)?;
        let fd = watch.raw_fd();
        poll.registry().register(&mut SourceFd(&fd), WATCH, Interest::READABLE)?;
        Ok::<_, io::Error>(watch)
    };
    let watch = open();
    if let Err(error) = &watch {
        log::warn!("cannot watch {}: {error}; new files are found once a minute", folders.path(State::New).display());
    }
    watch.ok()
}

/// Watches `new/`, and whether the folder around it moves.
fn follow(watch: &mut Watch, folders: &Folders) -> io::Result<()> {
    watch.follow_around(folders.root())?;
    watch.follow(&folders.path(State::New))
}

/// The connections leave a quarter of the descriptors to files.
fn settings(config: &Config, descriptors: u64) -> Settings {
    let mut settings = config.lists.server.clone();
    settings.workers_max = settings.workers_max.min(usize::try_from(descriptors / 4 * 3).unwrap_or(usize::MAX));
    settings
}
