//! Run records: the processes of the current runs, on disk, so that a successor of a dead agent can end its run.
//!
//! Each agent process has one file, [`file::RecordFile`], which names its run, if any. It is rewritten in place, so
//! that a run creates and removes no file. It is written without fsync, because it must survive the agent, not the
//! machine: after a crash of the machine the processes are gone as well, and the boot id shows that.

mod file;

use std::fs::{self, DirBuilder, File};
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::cgroup::{self, Cgroup};
use super::procfs::ProcessId;
use super::sweep::{self, Cookie};
use super::tree_scan::Ended;
use base::{Round, Session, TaskId};

pub use file::RecordFile;
use file::Recorded;

/// What a run is about, as its record names it.
pub trait Subject: Sized {
    /// The name of the run's folder. Together with the round it identifies the run.
    fn folder(&self) -> String;

    /// The number of the run among successive runs with the same folder.
    fn round(&self) -> Round {
        Round::default()
    }

    /// The inverse of both; `None` if `folder` is not the name of such a folder.
    fn read(folder: &str, round: Round) -> Option<Self>;
}

/// One run of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRun {
    /// The task.
    pub task: TaskId,
    /// The round of the run.
    pub round: Round,
}

impl Subject for TaskRun {
    fn folder(&self) -> String {
        self.task.to_string()
    }

    fn round(&self) -> Round {
        self.round
    }

    fn read(folder: &str, round: Round) -> Option<Self> {
        Some(Self { task: folder.parse().ok()?, round })
    }
}

/// The result of sweeping one run of a dead agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepReport<S = TaskRun> {
    /// Subject of the run.
    pub subject: S,
    /// The name of the dead agent, if the next agent of that name is its successor: see [`RecordFile::set_owner`].
    pub owner: Option<String>,
    /// Processes that were found alive and killed.
    pub killed: u32,
    /// Number of processes still running: another user's, or in an uninterruptible wait. The record stays for the next
    /// sweep.
    pub left: u32,
    /// Whether another run with a folder of the same name, such as the next round of the task, is running on this host.
    /// The folder then belongs to that run and must not be touched.
    pub superseded: bool,
}

/// One recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord<S = TaskRun> {
    /// Its subject.
    pub subject: S,
    /// Its run.sh or command; `None` in a record written before the start, when only the cookie is known.
    pub root: Option<ProcessId>,
    /// The process that started it: the agent or the worker. While that is alive, no other process touches the run.
    pub agent: ProcessId,
    /// The mark of the run's processes.
    pub cookie: Cookie,
}

/// A record that could not be written, read or removed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {path:?}: {source}")]
pub struct RecordError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// The folder of the run records of all agents of one host.
#[derive(Debug)]
pub struct RunRecords<S = TaskRun> {
    folder: PathBuf,
    subjects: PhantomData<S>,
}

impl<S: Subject> RunRecords<S> {
    /// Opens the folder. If it is missing, makes it, for the owner only.
    ///
    /// # Errors
    /// When it neither exists nor can be made.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, RecordError> {
        let folder = folder.into();
        match DirBuilder::new().recursive(true).mode(0o700).create(&folder) {
            Ok(()) => Ok(Self { folder, subjects: PhantomData }),
            Err(error) => Err(RecordError { action: "make", path: folder, source: error }),
        }
    }

    /// Makes the file of an agent process, without a run. `session` is its session with the controller.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn of(&self, agent: ProcessId, session: Option<Session>) -> Result<RecordFile, RecordError> {
        RecordFile::create(&self.folder, agent, session)
    }

    /// The runs of this boot. Records of an earlier boot are removed, because their processes are gone, and so are
    /// files that are not records.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn list(&self) -> Result<Vec<RunRecord<S>>, RecordError> {
        let files = self.files()?.into_iter();
        Ok(files.filter_map(|path| read_or_drop(&path)?.run).collect())
    }

    fn files(&self) -> Result<Vec<PathBuf>, RecordError> {
        let failed = |error| RecordError { action: "read", path: self.folder.clone(), source: error };
        let mut paths = fs::read_dir(&self.folder)
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>())
            .map_err(failed)?;
        // By name, so that the order of actions does not depend on the file system.
        paths.sort();
        Ok(paths)
    }

    /// Ends the runs of all dead agents and removes their records. A run whose agent lives is not touched, and a record
    /// whose processes could not all be ended stays. Waits up to a second or two for each run that it kills.
    ///
    /// A record is read again after the death of its agent, when its contents are final.
    ///
    /// `clean_up` is called for each run before its record is removed. Sweeps of one folder exclude each other, so that
    /// an agent that has swept and goes on, for example with the next round of a task, cannot interfere with another
    /// sweep.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn sweep(&self, mut clean_up: impl FnMut(&SweepReport<S>)) -> Result<Ended, RecordError> {
        let _lock = self.lock()?;
        let immune = sweep::ourselves_and_ancestors();
        let mut all = Ended::default();
        for path in self.files()? {
            let Some(recorded) = last_words::<S>(&path) else { continue };
            let mut ended = recorded.cgroup.as_ref().map(|cgroup| cgroup.end(&immune)).unwrap_or_default();
            if let Some(record) = recorded.run {
                ended += sweep::end_run(&record.cookie, record.root);
                // Checked only here: while this run was being ended, a live agent may have got the task.
                let folder = record.subject.folder();
                let is_of_another = |other: &RunRecord<S>| other.subject.folder() == folder && other.agent.is_alive();
                let superseded = self.list()?.iter().any(is_of_another);
                let left = u32::try_from(ended.left.len()).unwrap_or(u32::MAX);
                let owner = recorded.owner;
                clean_up(&SweepReport { subject: record.subject, owner, killed: ended.killed, left, superseded });
            }
            if ended.left.is_empty() {
                recorded.cgroup.inspect(Cgroup::remove);
                drop_file(&path);
            }
            all += ended;
        }
        Ok(all)
    }

    /// As [`Self::sweep`], for a folder whose machine and PID namespace are unknown. A run is ended only if one of its
    /// processes is found in our PID namespace, where the pid of its agent is meaningful. Nothing else is touched.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn sweep_proven(&self, mut clean_up: impl FnMut(&SweepReport<S>)) -> Result<Ended, RecordError> {
        let _lock = self.lock()?;
        let mut all = Ended::default();
        for path in self.files()? {
            let read = || file::read(&path).ok().flatten().filter(|recorded| !recorded.agent.is_alive());
            // Read twice, like any record of a dead agent.
            let Some(Recorded { owner, run: Some(record), .. }) = read().and_then(|_| read()) else { continue };
            if !sweep::is_of_our_namespace(&record.cookie) {
                continue;
            }
            let ended = sweep::end_run(&record.cookie, record.root);
            let left = u32::try_from(ended.left.len()).unwrap_or(u32::MAX);
            clean_up(&SweepReport { subject: record.subject, owner, killed: ended.killed, left, superseded: false });
            if left == 0 {
                drop_file(&path);
            }
            all += ended;
        }
        Ok(all)
    }

    /// Waits for another sweep of the folder and excludes further ones.
    fn lock(&self) -> Result<File, RecordError> {
        let failed = |error| RecordError { action: "lock", path: self.folder.clone(), source: error };
        let lock = File::open(&self.folder).map_err(failed)?;
        lock.lock().map_err(failed)?;
        Ok(lock)
    }

    /// Moves the calling process, a guard, out of the cgroup of an agent of this folder, if it was started in one. A
    /// guard ends all processes in that cgroup.
    ///
    /// # Errors
    /// When it must stay inside. A sweep does not kill it in any case.
    pub fn step_out(&self) -> Result<(), RecordError> {
        cgroup::step_out(&self.folder).map_err(|error| RecordError {
            action: "leave the cgroup of",
            path: self.folder.clone(),
            source: error,
        })
    }
}

/// The last record of a dead agent; `None` while it lives, or while a program that it was starting cannot be found yet.
fn last_words<S: Subject>(path: &Path) -> Option<Recorded<S>> {
    let agent = read_or_drop::<S>(path)?.agent;
    // Read again after its death: the agent may have finished one run and begun another since the first read.
    (!agent.is_alive() && file::is_let_go(path)).then(|| read_or_drop(path)).flatten()
}

fn read_or_drop<S: Subject>(path: &Path) -> Option<Recorded<S>> {
    match file::read(path) {
        Ok(Some(recorded)) => Some(recorded),
        Ok(None) => {
            log::info!("removing {}: a record of an earlier boot, or not a record", path.display());
            drop_file(path);
            None
        }
        // An agent that stops removes its record, and one that starts makes it.
        Err(_) => None,
    }
}

fn drop_file(path: &Path) {
    if let Err(error) = remove_file(path) {
        log::warn!("{error}");
    }
}

fn remove_file(path: &Path) -> Result<(), RecordError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(RecordError { action: "remove", path: path.to_owned(), source: error })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
