//! The folder of a worker and its files there.
//!
//! ```text
//! PROGRAM/                        a program, fetched or put there
//! .llts@tdf/workers/w-NAME.lock   held by the worker NAME while it lives
//! .llts@tdf/runs/                 run records, by which the guard, or the next worker, ends the run of a dead one
//! .llts@tdf/programs/             locks of programs, where they came from, and what is being fetched
//! .llts@tdf/results/w-NAME/       results that wait for Redis
//! ```
//!
//! No program can have the name of our folder: it has an `@`.

use std::fs;
use std::path::{Path, PathBuf};

use base::tdf::WorkerName;
use proc::lock::StateLock;
use proc::runs::{Runs, RunsError};
use proc::worker;
use proc::worker::WorkerStartError;

const OWN: &str = ".llts@tdf";

/// The runs of all workers of this host in a folder, for a worker and for its guard.
///
/// # Errors
/// When the folders cannot be made.
pub fn runs(root: &Path) -> Result<Runs, RunsError> {
    Runs::in_folder(&root.join(OWN).join("runs"))
}

/// The folder of a worker, whose name no other process can take.
#[derive(Debug)]
pub(in crate::shell) struct WorkerDir {
    pub(in crate::shell) root: PathBuf,
    pub(in crate::shell) own: PathBuf,
    _lock: StateLock,
}

impl WorkerDir {
    /// Takes the name of the worker, which only one process may have.
    pub(in crate::shell) fn open(root: &Path, name: &WorkerName) -> Result<Self, WorkerStartError> {
        let failed = |source| WorkerStartError::Folder { path: root.to_owned(), source };
        let root = root.canonicalize().map_err(failed)?;
        let own = root.join(OWN);
        fs::create_dir_all(&own).map_err(failed)?;
        let lock = worker::take_name(name, &root, &own.join("workers"))?;
        Ok(Self { root, own, _lock: lock })
    }

    pub(in crate::shell) fn programs(&self) -> PathBuf {
        self.own.join("programs")
    }
}
