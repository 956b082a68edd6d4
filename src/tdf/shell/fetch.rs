//! Getting the program of a task, on a thread of its own if it is not there yet.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::worker::Assignment;
use agent::source::{FetchOptions, HeldProgram, ProgramName, Programs, SourceError, Stop};
use proc::background::Background;
use proc::process::{Brand, Environment};
use proc::readable;

/// Time for an interrupted fetch to end. rsync ends at once; a silent server is not waited for.
const END_MAX: Duration = Duration::from_secs(1);

/// The parameters of every fetch.
pub(super) struct Fetcher {
    pub(super) programs: Arc<Programs>,
    pub(super) root: PathBuf,
    pub(super) environment: Environment,
    pub(super) brand: Option<Brand>,
}

/// A fetch that is going on.
pub(super) struct Fetch {
    thread: Background<(), Result<HeldProgram, SourceError>>,
    stop: Arc<Stop>,
}

/// Where a program is.
pub(super) enum Preparation {
    Present(HeldProgram),
    Fetching(Fetch),
    Impossible(String),
}

impl Fetcher {
    /// Looks for the program, and begins to fetch it if it is not there, or may have changed.
    pub(super) fn prepare(&self, task: &Assignment, doubted: bool) -> Preparation {
        let name = match ProgramName::new(&task.program) {
            Ok(name) => name,
            Err(error) => return Preparation::Impossible(error.to_string()),
        };
        if !doubted && let Some(held) = self.programs.present(&name) {
            return Preparation::Present(held);
        }
        match self.start(name, task.source.clone(), doubted) {
            Ok(fetch) => Preparation::Fetching(fetch),
            Err(error) => Preparation::Impossible(format!("cannot fetch the program: {error}")),
        }
    }

    fn start(&self, name: ProgramName, source: String, doubted: bool) -> io::Result<Fetch> {
        let stop = Arc::new(Stop::new()?);
        let (programs, root, their_stop) = (Arc::clone(&self.programs), self.root.clone(), Arc::clone(&stop));
        let (environment, brand) = (self.environment.clone(), self.brand);
        let thread = Background::start("fetch", move |(), done: &dyn Fn(_)| {
            let options = FetchOptions {
                stop: &their_stop,
                folder: &root,
                environment: &environment,
                brand,
                allowed: None,
                sha256: None,
                tool: None,
            };
            let fetch = if doubted { Programs::look_again } else { Programs::fetch };
            done(fetch(&programs, &name, &source, &options));
        })?;
        thread.give(());
        Ok(Fetch { thread, stop })
    }
}

impl Fetch {
    /// The outcome of a fetch that has ended.
    pub(super) fn poll(&self) -> Option<Result<HeldProgram, SourceError>> {
        self.thread.poll()
    }

    /// Ends the fetch, which removes its partial download; at the latest, the next worker does.
    pub(super) fn cancel(self) {
        self.stop.set();
        readable::is_readable(&self.thread, Some(END_MAX));
    }
}

impl AsFd for Fetch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.thread.as_fd()
    }
}
