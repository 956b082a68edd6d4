//! The common parts of the workers of prompts, TDF and task lists as processes: errors at the start, the guard and the
//! signals, and commands that are shell lines ([`commands`]).

pub mod commands;

use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use super::guard::{Guard, GuardError, GuardPlan};
use super::lock::{LockError, StateLock};
use super::process;
use super::readable::PollSet;
use super::runs::RunsError;
use super::signals::{STOP, Signals};
use base::tdf::WorkerName;

/// Why a worker of any kind cannot start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerStartError {
    /// A folder is not usable.
    #[error("cannot use {}: {source}", path.display())]
    Folder {
        /// The path of the file or folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Another process uses the name.
    #[error(
        "a worker {name} already runs in {}{}; use another name",
        folder.display(), pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
    )]
    NameTaken {
        /// The name.
        name: WorkerName,
        /// The folder of the workers.
        folder: PathBuf,
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

/// Takes a name, which one process at a time may use in `folder`. Its lock file is in `locks`.
///
/// # Errors
/// [`WorkerStartError::NameTaken`], [`WorkerStartError::Folder`]
pub fn take_name(name: &WorkerName, folder: &Path, locks: &Path) -> Result<StateLock, WorkerStartError> {
    StateLock::acquire(locks, &format!("w-{name}")).map_err(|error| match error {
        LockError::Held { pid, .. } => {
            WorkerStartError::NameTaken { name: name.clone(), folder: folder.to_owned(), pid }
        }
        LockError::Io { path, source } => WorkerStartError::Folder { path, source },
    })
}

/// The guard of a worker, and the signals to the worker.
#[derive(Debug)]
pub struct Watch {
    /// `None` after its death, or if the worker needs none.
    guard: Option<Guard>,
    signals: Signals,
}

/// The indexes of both in a [`PollSet`].
#[derive(Clone, Copy, Debug)]
pub struct Watched {
    signals: usize,
    guard: Option<usize>,
}

/// Which of both are ready after a wait.
#[derive(Clone, Copy, Debug)]
pub struct Woken {
    signals: bool,
    guard: bool,
}

/// An event for the loop of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerEvent {
    /// A child has ended.
    Child,
    /// The worker must stop, because of a signal or because its guard was killed. The reason has been logged.
    Stop,
}

impl Watched {
    /// Which of them are ready, after the wait.
    pub fn woken(self, set: &PollSet<'_>) -> Woken {
        Woken { signals: set.is_readable(Some(self.signals)), guard: set.is_readable(self.guard) }
    }
}

impl Watch {
    /// Starts the guard and makes this process adopt detached processes. Call it before any thread is started, so that
    /// all threads leave the signals to the loop.
    ///
    /// # Errors
    /// [`WorkerStartError::Guard`], [`WorkerStartError::System`]
    pub fn start(guard: &GuardPlan) -> Result<Self, WorkerStartError> {
        // When the first process of a PID namespace ends, the kernel ends all others, so it needs no guard. The guard
        // must detach before the worker adopts detached processes.
        let guard = (std::process::id() != 1).then(|| guard.start()).transpose()?;
        process::become_subreaper()?;
        let signals = Signals::install(&[&STOP[..], &[Signal::SIGCHLD]].concat())?;
        Ok(Self { guard, signals })
    }

    /// Adds both to a set of descriptors to wait for.
    pub fn add_to<'a>(&'a self, set: &mut PollSet<'a>) -> Watched {
        let signals = set.add(self.signals.as_fd());
        Watched { signals, guard: self.guard.as_ref().map(|guard| set.add(guard.as_fd())) }
    }

    /// The events since the last call.
    pub fn events(&mut self, woken: Woken) -> Vec<WorkerEvent> {
        let mut events = Vec::new();
        for signal in if woken.signals { self.signals.read() } else { Vec::new() } {
            if signal == Signal::SIGCHLD {
                events.push(WorkerEvent::Child);
            } else {
                log::info!("{signal}: stopping");
                events.push(WorkerEvent::Stop);
            }
        }
        if woken.guard {
            self.guard = None;
            log::error!("the guard was killed: stopping");
            events.push(WorkerEvent::Stop);
        }
        events
    }

    /// Lets the guard end, because no process is left behind.
    pub fn release(self) {
        self.guard.into_iter().for_each(Guard::release);
    }
}
