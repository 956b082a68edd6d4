//! Run records: the processes of the current runs, on disk, so that a successor of a dead agent can end its run.
//!
//! Each agent process has one file, [`file::RecordFile`], that names its run, if any. It is rewritten in place, so that a
//! run creates and removes no file. It is written without fsync, because it must survive the agent, not the machine. After
//! a crash of the machine the processes are gone as well, and the boot id shows that.

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

/// The subject of a run, as in its record.
pub trait Subject: Sized {
    /// The name of the run's folder; with the round, it identifies the run.
    fn folder(&self) -> String;

    /// Number of the run among successive runs with the same folder.
    fn round(&self) -> Round {
        Round::default()
    }

    /// The inverse of both; `None` if it is not the name of such a folder.
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
    /// The name of the dead agent, if it has a successor of that name: see [`RecordFile::set_owner`].
    pub owner: Option<String>,
    /// Processes that were found alive and killed.
    pub killed: u32,
    /// Number of processes that are still running: of another user, or in an uninterruptible wait. The record stays for the
    /// next sweep.
    pub left: u32,
    /// Whether another run in a folder of the same name, such as the next round of the task, is running on this host: the
    /// folder belongs to that run and must not be touched.
    pub superseded: bool,
}

/// One recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord<S = TaskRun> {
    /// Its subject.
    pub subject: S,
    /// Its run.sh or command; `None` in a record that is written before the start, when only the cookie is known.
    pub root: Option<ProcessId>,
    /// The process that has started it: the agent, or the prompt worker. While that is alive, no other process touches the
    /// run.
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
    /// Opens the folder, and makes it, for the owner only, if it is not there.
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

    /// The runs of this boot. Records of an earlier boot, and files that are not records, are removed: the processes that
    /// they name are gone.
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

    /// Ends the runs of all dead agents, and removes their records. A run whose agent lives is not touched, and a record
    /// whose processes could not all be ended stays. Waits up to a second or two for each run that it kills.
    ///
    /// A record is read after the death of its agent, which cannot write any more: its last contents are acted on.
    ///
    /// `clean_up` is called for each run before its record is removed. Sweeps of one folder exclude each other: a later
    /// action of an agent that has swept, such as taking the next round of a task, cannot interfere with another sweep.
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
                // Checked again: while this run was being ended, the task may have been given to a live agent.
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

    /// The same for a folder whose machine and PID namespace are unknown. A run is ended only if one of its processes is
    /// found in our PID namespace, where the number of its agent is meaningful; nothing else is touched.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn sweep_proven(&self, mut clean_up: impl FnMut(&SweepReport<S>)) -> Result<Ended, RecordError> {
        let _lock = self.lock()?;
        let mut all = Ended::default();
        for path in self.files()? {
            let read = || file::read(&path).ok().flatten().filter(|recorded| !recorded.agent.is_alive());
            // Twice, like any record of a dead agent.
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

    /// Waits for another sweep of the folder, and excludes further ones.
    fn lock(&self) -> Result<File, RecordError> {
        let failed = |error| RecordError { action: "lock", path: self.folder.clone(), source: error };
        let lock = File::open(&self.folder).map_err(failed)?;
        lock.lock().map_err(failed)?;
        Ok(lock)
    }

    /// Moves the calling process out of the cgroup of an agent of this folder, if it was started in one. It is the guard of
    /// an agent, which ends all processes in there.
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

impl<S> RunRecord<S> {
    /// Whether the root of this record is that very process and is still running: pid, start time and, by
    /// [`RunRecords::list`], boot.
    #[must_use]
    pub fn is_same_process(&self) -> bool {
        self.root.is_some_and(ProcessId::is_alive)
    }
}

/// The last record of a dead agent; `None` while it lives, or while a program that it was starting cannot be found yet.
fn last_words<S: Subject>(path: &Path) -> Option<Recorded<S>> {
    let agent = read_or_drop::<S>(path)?.agent;
    // Read again after its death: it may have finished one run and begun another since it was read.
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
