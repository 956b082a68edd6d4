//! The prompt worker's process: one connection to a master, one run of the command at a time, one loop.
//!
//! The loop waits for the master, the signals and the end of the command, all at once, and never for the command: its input
//! is a file, its output goes to files, its end is a descriptor. Results are put in place in the background, so the loop does not
//! wait for a disk either. A check is answered at once, whatever the command does.
//!
//! A guard ([`proc::guard`]) ends the command of a killed worker, which would otherwise work on a prompt that another worker has by
//! then. A worker whose guard is killed stops.

mod memory;
mod outbox;
mod output_ends;
mod runner;
mod sending;
mod tailing;
mod workdir;

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::files::create::TASKS;
use crate::wire::{FromMaster, MASTER_FRAME_BYTES_MAX, MessageError};
use crate::worker::engine::signs::Signs;
use crate::worker::engine::{Effect, End, ResultFolder, Settings, StoreError, Tally, Worker};
use proc::guard::GuardPlan;
use proc::process::{Command, CommandError};
use proc::readable::PollSet;
use proc::runs::{Runs, RunsError, host};
use proc::worker::{Watch, Woken, WorkerEvent, WorkerStartError};
use proc::{clock, logging};
use zmtp::json::json_connection::ServerLink;
use zmtp::json::json_dial::{DialError, Server};

use outbox::{Outbox, Outputs};
use runner::{Keeping, Preparation, Runner, Startup};
use tailing::Tailing;
pub use workdir::Workdir;
use workdir::Workplace;

/// The folder of runs, beside those of prompts.
pub(crate) const RUNS: &str = ".runs";

/// Maximum bytes queued for a master that does not read. A worker sends only a few lines.
const OUT_BYTES_MAX: usize = 1 << 20;

/// The parameters of a worker.
#[derive(Clone, Debug)]
pub struct Work {
    /// The master.
    pub master: Server,
    /// The folder with `.tasks/`; the command runs in it.
    pub root: PathBuf,
    /// The command, with its arguments.
    pub command: Vec<OsString>,
    /// Settings of the engine.
    pub settings: Settings,
    /// Sync results to the disk before they are reported.
    pub durable: bool,
    /// The signs of a limit in outputs.
    pub signs: Signs,
    /// The kind of folder in which runs work.
    pub workdir: Workdir,
}

/// Why a worker cannot start.
#[derive(Debug, thiserror::Error)]
pub enum PromptWorkerError {
    /// The command does not exist or cannot be run.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A value of the prompt cannot be quoted where it stands.
    #[error("the command cannot get its prompt safely: {0}")]
    Template(String),
    /// The root is not a usable folder.
    #[error("cannot use the root folder {}: {source}", root.display())]
    Root {
        /// Path of the root.
        root: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Runs cannot have folders of the chosen kind.
    #[error("{0}")]
    Workdir(String),
    /// As for any worker.
    #[error(transparent)]
    Start(#[from] WorkerStartError),
}

/// The runs of all prompt workers of this host below a root, for a worker and for its guard.
///
/// # Errors
/// When the folders cannot be made.
pub fn runs(root: &Path) -> Result<Runs, RunsError> {
    Runs::in_folder(&root.join(TASKS).join(RUNS))
}

/// Works until there is no more master, or until SIGINT, SIGTERM or SIGHUP; returns why it has ended, and the number of
/// finished prompts. Call it before any thread is started.
///
/// # Errors
/// [`PromptWorkerError`], before the first attempt to reach a master.
pub fn run(work: Work, guard: GuardPlan) -> Result<(End, Tally), PromptWorkerError> {
    let command = Command::find(&work.command, std::env::var_os("PATH").as_deref())?;
    let unusable = |error| PromptWorkerError::Root { root: work.root.clone(), source: error };
    let root = work.root.canonicalize().map_err(unusable)?;
    let workplace = Workplace::open(work.workdir, &root).map_err(PromptWorkerError::Workdir)?;
    let host = host();
    let runs = runs(&root).map_err(WorkerStartError::from)?;
    let watch = Watch::start(&guard.of_prompts(root.clone()))?;
    let runner = Runner::start(&root, command, runs, work.durable, work.signs, workplace)?;
    let worker = Worker::new(work.settings, clock::now());
    let name = host.clone();
    let link = ServerLink::new(work.master, MASTER_FRAME_BYTES_MAX, OUT_BYTES_MAX);
    let tasks = root.join(TASKS);
    let mut turns = Loop {
        link,
        host,
        name,
        watch,
        worker,
        runner,
        tasks,
        preparing: None,
        keeping: None,
        tailing: Tailing::default(),
        outbox: None,
    };
    let ended = turns.serve();
    turns.runner.end();
    turns.watch.release();
    Ok(ended)
}

struct Loop {
    link: ServerLink,
    host: String,
    /// Name of the worker on the present or the last connection.
    name: String,
    watch: Watch,
    worker: Worker,
    runner: Runner,
    /// The folder with the results.
    tasks: PathBuf,
    /// Results on their way to the master.
    outbox: Option<Outbox>,
    /// Set while the folder of a run is being made.
    preparing: Option<Preparation>,
    /// Set while the results of a run are being put in place.
    keeping: Option<Keeping>,
    /// Clients that follow the output of the run.
    tailing: Tailing,
}

/// The events that woke the loop.
struct Ready {
    watch: Woken,
    prepared: bool,
    results_stored: bool,
    output_grown: bool,
    readable: bool,
    writable: bool,
}

impl Loop {
    fn serve(&mut self) -> (End, Tally) {
        loop {
            if let Some(end) = self.settle() {
                return (end, self.worker.tally());
            }
            let ready = self.wait();
            for event in self.watch.events(ready.watch) {
                match event {
                    WorkerEvent::Stop => self.stop(),
                    WorkerEvent::Child if self.has_helpers() => {}
                    WorkerEvent::Child => self.runner.reap(&mut self.worker),
                }
            }
            if ready.prepared {
                self.launch();
            }
            if ready.results_stored {
                self.finish_keeping();
            }
            if ready.writable {
                self.with_link(ServerLink::flush);
            }
            if ready.readable
                && let Some(end) = self.handle_link()
            {
                return (end, self.worker.tally());
            }
            if ready.output_grown {
                self.tailing.handle_growth();
            }
            self.send_tails();
            self.send_parts();
            self.worker.handle_timeout(clock::now());
        }
    }

    fn wait(&self) -> Ready {
        let mut set = PollSet::default();
        let watch = self.watch.add_to(&mut set);
        let preparing = self.preparing.as_ref().map(|preparing| set.add(preparing.as_fd()));
        let keeping = self.keeping.as_ref().map(|keeping| set.add(keeping.as_fd()));
        let growth = self.tailing.fd().map(|fd| set.add(fd));
        let link = self.link.add_to(&mut set);
        let timeout = self.worker.poll_timeout().map(|(at, _)| at.since(clock::now().mono));
        let is_sending = self.outbox.is_some() && self.link.is_flushed();
        set.wait(if is_sending { Some(Duration::ZERO) } else { timeout });
        Ready {
            watch: watch.woken(&set),
            prepared: set.is_readable(preparing),
            results_stored: set.is_readable(keeping),
            output_grown: set.is_readable(growth),
            readable: set.is_readable(link),
            writable: set.is_writable(link),
        }
    }

    fn stop(&mut self) {
        self.runner.stop();
        self.worker.handle_stop(clock::now());
    }

    /// Whether a thread may have started a program of its own, which the thread reaps itself. There is no run meanwhile.
    fn has_helpers(&self) -> bool {
        let works = self.preparing.is_some() || self.keeping.is_some() || self.runner.is_cleaning();
        works && !self.runner.is_shared()
    }

    fn handle_link(&mut self) -> Option<End> {
        match self.link.dialled() {
            Some(Ok(port)) => {
                // The document's worker uses its port as its name, which is unique on its host only.
                self.name = format!("{}-{port}", self.host);
                self.worker.handle_connected(clock::now(), &self.name);
            }
            Some(Err(DialError::Unreachable(reason))) => self.worker.handle_unreachable(clock::now(), &reason),
            Some(Err(DialError::Denied(reason))) => self.worker.handle_denied(clock::now(), &reason),
            None => return self.receive(),
        }
        None
    }

    fn store_results(&mut self, folder: ResultFolder) {
        match self.runner.store_results(folder, &self.name) {
            Ok(keeping) => self.keeping = Some(keeping),
            Err(error) => self.results_stored(Err(StoreError::Disk(error.to_string()))),
        }
    }

    fn launch(&mut self) {
        let Some(preparing) = self.preparing.take() else { return };
        let prepared =
            preparing.outcome().unwrap_or_else(|| Err("the thread that makes its folder has died".to_owned()));
        let started = self.runner.launch(prepared);
        self.tailing.retry_all();
        self.worker.handle_started(clock::now(), started);
    }

    fn finish_keeping(&mut self) {
        let Some(keeping) = self.keeping.take() else { return };
        let died = || StoreError::Disk("the thread that keeps them has died".to_owned());
        self.results_stored(keeping.outcome().unwrap_or_else(|| Err(died())));
    }

    fn results_stored(&mut self, outcome: Result<Outputs, StoreError>) {
        let outcome = self.runner.finish(outcome);
        self.worker.handle_results_stored(clock::now(), outcome);
    }

    fn receive(&mut self) -> Option<End> {
        // The end of the connection comes after the messages before it.
        let received = self.link.receive();
        while let Some(object) = self.link.next_object() {
            match object.map(FromMaster::parse) {
                Ok(Ok(message)) => self.worker.handle_message(clock::now(), message),
                Ok(Err(error @ MessageError::UnknownType(_))) => log::warn!("a message of the master: {error}"),
                Ok(Err(MessageError::Malformed(reason))) | Err(reason) => {
                    self.lose(&format!("the master cannot be understood: {reason}"));
                }
            }
            if let Some(end) = self.settle() {
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
        self.outbox = None;
        self.tailing.end();
        if self.link.lose() {
            self.worker.handle_closed(clock::now(), reason);
        }
    }

    /// Carries out the engine's decisions. `Some` when the worker has ended.
    fn settle(&mut self) -> Option<End> {
        loop {
            logging::write(self.worker.take_log());
            match self.worker.poll_effect()? {
                Effect::Connect => {
                    if let Err(reason) = self.link.dial() {
                        self.worker.handle_unreachable(clock::now(), &reason);
                    }
                }
                Effect::Send(message) => self.with_link(|link| link.send(&message.encode())),
                Effect::Tail(order) => self.tailing.add(*order),
                Effect::Close => {
                    self.outbox = None;
                    self.tailing.end();
                    self.link.close();
                }
                Effect::Start(request) => match self.runner.begin(*request) {
                    Startup::Started(started) => self.worker.handle_started(clock::now(), started),
                    Startup::Preparing(preparing) => self.preparing = Some(preparing),
                },
                Effect::Signal(signal) => self.runner.signal(signal),
                Effect::CheckTree => self.runner.check_tree(&mut self.worker),
                Effect::StoreResults(folder) => self.store_results(folder),
                Effect::Discard => self.runner.discard(),
                Effect::SendResults(run, welcome) => self.send_results(&run, &welcome),
                Effect::Exit(end) => return Some(end),
            }
        }
    }
}
