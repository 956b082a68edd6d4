//! The process of a worker: one connection to a server, one command at a time, one loop.
//!
//! The loop waits for the server, the signals and the end of the command, all at once, and never for the command: its outputs are
//! files, its end is a descriptor. It has a guard ([`proc::guard`]): a worker that is killed leaves no command running. A
//! worker whose guard is killed stops.

use std::path::{Path, PathBuf};

use super::runner::Runner;
use crate::engine::worker::{Effect, End, Settings, Worker};
use crate::wire::{FromServer, SERVER_FRAME_BYTES_MAX};
use proc::guard::GuardPlan;
use proc::readable::PollSet;
use proc::runs::{Runs, RunsError};
use proc::worker::{Watch, Woken, WorkerEvent, WorkerStartError};
use proc::{clock, logging, worker};
use zmtp::json::json_connection::ServerLink;
use zmtp::json::json_dial::Server;

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
/// [`WorkerStartError`], before the first attempt to reach a server.
pub fn run(work: Work, guard: GuardPlan) -> Result<End, WorkerStartError> {
    let unusable = |source| WorkerStartError::Folder { path: work.work_dir.clone(), source };
    std::fs::create_dir_all(&work.work_dir).map_err(unusable)?;
    let work_dir = work.work_dir.canonicalize().map_err(unusable)?;
    let name = &work.settings.name;
    let _lock = worker::take_name(name, &work_dir, &work_dir)?;
    let runs = runs(&work_dir)?;
    let watch = Watch::start(&guard.of_lists(work_dir.clone()))?;
    let runner = Runner::start(&work.folder, work_dir.join(format!("w-{name}")), runs)?;
    let worker = Worker::new(work.settings, clock::now());
    let server = Server { host: work.host, port: work.port, keys: None };
    let link = ServerLink::new(server, SERVER_FRAME_BYTES_MAX, OUT_BYTES_MAX);
    let mut turns = Loop { link, watch, worker, runner };
    let end = turns.serve();
    turns.watch.release();
    Ok(end)
}

struct Loop {
    link: ServerLink,
    watch: Watch,
    worker: Worker,
    runner: Runner,
}

/// The events that woke the loop.
struct Ready {
    watch: Woken,
    readable: bool,
    writable: bool,
}

impl Loop {
    fn serve(&mut self) -> End {
        loop {
            if let Some(end) = self.obey() {
                return end;
            }
            self.runner.rest();
            let ready = self.wait();
            for event in self.watch.events(ready.watch) {
                match event {
                    WorkerEvent::Child => self.runner.reap(&mut self.worker),
                    WorkerEvent::Stop => self.worker.handle_stop(clock::now()),
                }
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

    fn wait(&self) -> Ready {
        let mut set = PollSet::default();
        let watch = self.watch.add_to(&mut set);
        let link = self.link.add_to(&mut set);
        set.wait(self.worker.poll_timeout().map(|(at, _)| at.since(clock::now().mono)));
        Ready { watch: watch.woken(&set), readable: set.is_readable(link), writable: set.is_writable(link) }
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
                Effect::Signal(signal) => self.runner.commands.signal(signal),
                Effect::CheckTree => self.worker.handle_tree(clock::now(), self.runner.commands.is_any_left()),
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
