//! The process of a worker: one connection to a server, one command at a time, one loop.
//!
//! The loop waits for the server, the signals and the end of the command, all at once, and never for the command: its outputs are
//! files, its end is a descriptor. It has a guard ([`crate::shell::guard`]): a worker that is killed leaves no command running. A
//! worker whose guard is killed stops.

use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use super::runner::{Runner, RunnerError};
use crate::engine::lists::worker::{Effect, End, Settings, Worker};
use crate::protocol::lists::{FromServer, SERVER_FRAME_BYTES_MAX};
use crate::shell::guard::{Guard, GuardError, GuardPlan};
use crate::shell::json_connection::ServerLink;
use crate::shell::json_dial::Server;
use crate::shell::lock::{LockError, StateLock};
use crate::shell::readable::PollSet;
use crate::shell::runs::{Runs, RunsError};
use crate::shell::signals::{STOP, Signals};
use crate::shell::{clock, logging, process};

/// Maximum bytes queued for a server that does not read. The outbox sends a few messages of results at once.
const OUT_BYTES_MAX: usize = 1 << 30;

/// The folder with the run records, among those of the workers.
const RUNS: &str = "runs";

/// The parameters of a worker.
#[derive(Clone, Debug)]
pub struct Work {
    /// The server's host: a name or an address.
    pub host: String,
    /// The server's port.
    pub port: u16,
    /// The current folder of all commands.
    pub folder: PathBuf,
    /// The folder for the outputs of running commands.
    pub work_dir: PathBuf,
    /// Settings of the engine.
    pub settings: Settings,
}

/// Why a worker cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ListWorkerError {
    /// A folder is not usable.
    #[error("cannot use the folder {}: {source}", path.display())]
    Folder {
        /// Its path.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Another process has the name.
    #[error("a worker {name} already runs here{}; use another name", pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    NameTaken {
        /// The name.
        name: String,
        /// The process, if it is known.
        pid: Option<u32>,
    },
    /// The folders of runs cannot be made.
    #[error(transparent)]
    Runs(#[from] RunsError),
    /// The guard cannot be started, so a command would survive a kill of the worker.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// The system refuses a basic resource.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// The runs of all workers of this host in a folder, for a worker and for its guard.
///
/// # Errors
/// When the folders cannot be made.
pub fn runs(work_dir: &Path) -> Result<Runs, RunsError> {
    Runs::in_folder(&work_dir.join(RUNS))
}

/// Works until SIGINT, SIGTERM or SIGHUP; returns why it has ended. Call it before any thread is started.
///
/// # Errors
/// [`ListWorkerError`], before the first attempt to reach a server.
pub fn run(work: Work, guard: GuardPlan) -> Result<End, ListWorkerError> {
    let unusable = |source| ListWorkerError::Folder { path: work.work_dir.clone(), source };
    std::fs::create_dir_all(&work.work_dir).map_err(unusable)?;
    let work_dir = work.work_dir.canonicalize().map_err(unusable)?;
    let own = format!("w-{}", work.settings.name);
    let _lock = StateLock::acquire(&work_dir, &own).map_err(|error| match error {
        LockError::Held { pid, .. } => ListWorkerError::NameTaken { name: work.settings.name.to_string(), pid },
        LockError::Io { path, source } => ListWorkerError::Folder { path, source },
    })?;
    let runs = runs(&work_dir)?;
    // In a pid namespace, the end of the first process makes the kernel end all others, so that needs no guard. The guard is started
    // before the worker adopts detached processes.
    let guard = (std::process::id() != 1).then(|| guard.of_lists(work_dir.clone()).start()).transpose()?;
    process::become_subreaper()?;
    // This comes before any thread is started, so that all of them leave these signals to the loop.
    let mut signals = Signals::install(&[&STOP[..], &[Signal::SIGCHLD]].concat())?;
    let runner = Runner::start(&work.folder, work_dir.join(own), runs).map_err(|error| match error {
        RunnerError::Runs(error) => ListWorkerError::Runs(error),
        RunnerError::System(error) => ListWorkerError::System(error),
    })?;
    let worker = Worker::new(work.settings, clock::now());
    let server = Server { host: work.host, port: work.port, keys: None };
    let link = ServerLink::new(server, SERVER_FRAME_BYTES_MAX, OUT_BYTES_MAX);
    let mut turns = Loop { link, guard, worker, runner };
    let end = turns.serve(&mut signals);
    turns.guard.into_iter().for_each(Guard::release);
    Ok(end)
}

struct Loop {
    link: ServerLink,
    /// `None` after its death, and for a worker that needs none.
    guard: Option<Guard>,
    worker: Worker,
    runner: Runner,
}

/// The events that woke the loop.
struct Ready {
    signals: bool,
    guard: bool,
    readable: bool,
    writable: bool,
}

impl Loop {
    fn serve(&mut self, signals: &mut Signals) -> End {
        loop {
            if let Some(end) = self.obey() {
                return end;
            }
            let ready = self.wait(signals);
            if ready.signals {
                self.handle_signals(signals);
            }
            if ready.guard {
                self.guard = None;
                log::error!("the guard was killed: stopping");
                self.worker.handle_stop(clock::now());
            }
            if ready.writable {
                self.with_link(ServerLink::flush);
            }
            if ready.readable
                && let Some(end) = self.handle_link()
            {
                return end;
            }
            self.worker.handle_timeout(clock::now());
        }
    }

    fn wait(&self, signals: &Signals) -> Ready {
        let mut set = PollSet::default();
        let signals = set.add(signals.as_fd());
        let guard = self.guard.as_ref().map(|guard| set.add(guard.as_fd()));
        let link = self.link.add_to(&mut set);
        set.wait(self.worker.poll_timeout().map(|(at, _)| at.since(clock::now().mono)));
        Ready {
            signals: set.is_readable(Some(signals)),
            guard: set.is_readable(guard),
            readable: set.is_readable(link),
            writable: set.is_writable(link),
        }
    }

    fn handle_signals(&mut self, signals: &mut Signals) {
        for signal in signals.read() {
            if signal == Signal::SIGCHLD {
                self.runner.reap(&mut self.worker);
            } else {
                log::info!("{signal}: stopping");
                self.worker.handle_stop(clock::now());
            }
        }
    }

    fn handle_link(&mut self) -> Option<End> {
        match self.link.dialled() {
            Some(Ok(_)) => self.worker.handle_connected(clock::now()),
            Some(Err(reason)) => self.worker.handle_unreachable(clock::now(), &reason.to_string()),
            None => return self.receive(),
        }
        None
    }

    fn receive(&mut self) -> Option<End> {
        // The end of the connection comes after the messages before it.
        let received = self.link.receive();
        while let Some(object) = self.link.next_object() {
            match object.and_then(FromServer::parse) {
                Ok(message) => self.worker.handle_message(clock::now(), message),
                Err(reason) => self.lose(&format!("the server cannot be understood: {reason}")),
            }
            if let Some(end) = self.obey() {
                return Some(end);
            }
        }
        if let Err(reason) = received {
            self.lose(&reason);
        }
        None
    }

    fn with_link(&mut self, act: impl FnOnce(&mut ServerLink) -> Result<(), String>) {
        if let Err(reason) = act(&mut self.link) {
            self.lose(&reason);
        }
    }

    fn lose(&mut self, reason: &str) {
        if self.link.lose() {
            self.worker.handle_closed(clock::now(), reason);
        }
    }

    /// Carries out the engine's decisions. `Some` when the worker has ended.
    fn obey(&mut self) -> Option<End> {
        while let Some(effect) = self.worker.poll_effect() {
            logging::write(self.worker.take_log());
            match effect {
                Effect::Connect => {
                    if let Err(reason) = self.link.dial() {
                        self.worker.handle_unreachable(clock::now(), &reason);
                    }
                }
                Effect::Send(message) => self.with_link(|link| link.send(&message.encode())),
                Effect::Close => self.link.close(),
                Effect::Start(order) => {
                    let started = self.runner.begin(&order);
                    self.worker.handle_started(clock::now(), started);
                }
                Effect::Signal(signal) => self.runner.signal(signal),
                Effect::CheckTree => self.runner.check_tree(&mut self.worker),
                Effect::Collect(bytes_max) => {
                    let outputs = self.runner.collect(bytes_max);
                    self.worker.handle_collected(clock::now(), outputs);
                }
                Effect::Exit(end) => {
                    logging::write(self.worker.take_log());
                    return Some(end);
                }
            }
        }
        logging::write(self.worker.take_log());
        None
    }
}
