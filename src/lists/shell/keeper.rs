//! The thread that writes results and moves what has ended: `running/` to `closed/`, to `completed/` or `failed/`, and onwards.
//!
//! The thread does many jobs together, syncs once, and then reports them: a worker drops its copy of a result only when the disk has
//! it, and no file is synced by itself. After a kill at any instant [`Keeper::finish_leftovers`] continues.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use super::folders::{
    CAREFUL, Folders, State, file_name, move_files, move_task, names, next_free, read_text, remove_drafts, tasks,
    tasks_with, write_over,
};
use super::repeat;
use crate::engine::server::{Ended, Receipt};
use crate::engine::task;
use crate::engine::task::{ERR, Fate, OUT, RunLines, TASK, Task};
use base::lists::{ClosedName, ListTaskId, RunningName};
use proc::background::Background;
use proc::clock;
use proc::files::rename::rename_new;

/// Jobs that share a sync.
const BATCH_MAX: usize = 256;

/// Time between two syncs: moving files into folders that are synced all the time is slow. The first job after a rest waits for nothing.
const PAUSE: Duration = Duration::from_millis(50);

/// Marks the drafts of the server.
const SERVER: &str = "server";

/// Work for the thread.
#[derive(Debug)]
pub(super) enum Job {
    Store(RunningName, Receipt, Vec<Ended>),
    Close(RunningName, u64),
    Reopen(RunningName, BTreeSet<ListTaskId>, u64),
    /// Finish what a killed server has left.
    FinishLeftovers,
    /// Sync moves that another thread has made.
    Sync,
}

/// The outcome of a job.
#[derive(Debug)]
pub(super) enum Done {
    Stored(RunningName, Receipt, Result<Vec<ListTaskId>, (String, Vec<Ended>)>),
    Closed(RunningName, Result<(), String>),
    Reopened(RunningName, Result<u64, String>),
}

/// The state of the thread.
#[derive(Debug)]
pub(super) struct Keeper {
    folders: Folders,
    is_durable: bool,
    /// Tasks whose duplicate exists, on their way to `failed_archive/`.
    repeated: BTreeSet<ListTaskId>,
    /// Whether duplicates and half moves of a killed server may exist.
    may_exist: bool,
}

impl Keeper {
    /// Starts the thread.
    pub(super) fn start(folders: Folders, is_durable: bool) -> io::Result<Background<Job, Done>> {
        let mut keeper = Self { folders, is_durable, repeated: BTreeSet::new(), may_exist: false };
        Background::start_batches("lists-keeper", BATCH_MAX, move |jobs, report| keeper.work(jobs, report))
    }

    fn work(&mut self, jobs: Vec<Job>, report: &dyn Fn(Done)) {
        let done: Vec<Done> = jobs.into_iter().filter_map(|job| self.obey(job)).collect();
        if self.is_durable
            && let Err(error) = self.folders.sync()
        {
            log::error!("cannot sync {}: {error}", self.folders.root().display());
        }
        done.into_iter().for_each(report);
        if self.is_durable {
            std::thread::park_timeout(PAUSE);
        }
    }

    fn obey(&mut self, job: Job) -> Option<Done> {
        let said = |error: io::Error| error.to_string();
        match job {
            Job::Store(list, receipt, ended) => {
                let folder = self.folders.path(State::Running).join(list.to_string());
                let stored = ended.iter().try_for_each(|ended| store(&folder, &list, ended));
                let outcome = match stored {
                    Ok(()) => Ok(ended.iter().map(|ended| ended.task.id).collect()),
                    Err(error) => Err((error.to_string(), ended)),
                };
                Some(Done::Stored(list, receipt, outcome))
            }
            Job::Close(list, finished) => {
                let outcome = self.close(&list, finished).map_err(said);
                Some(Done::Closed(list, outcome))
            }
            Job::Reopen(list, done, finished) => {
                let outcome = self.reopen(&list, &done, finished).map_err(said);
                Some(Done::Reopened(list, outcome))
            }
            Job::FinishLeftovers => {
                self.finish_leftovers();
                None
            }
            Job::Sync => None,
        }
    }

    fn close(&mut self, list: &RunningName, finished: u64) -> io::Result<()> {
        let from = self.folders.path(State::Running).join(list.to_string());
        let closed = self.folders.path(State::Closed);
        if from.symlink_metadata().is_ok() {
            let name = |finished| ClosedName { running: list.clone(), finished }.to_string();
            next_free(finished, |finished| rename_new(&from, &closed.join(name(finished))))?;
        }
        self.settle_lists(|name| name.running == *list)
    }

    fn reopen(&mut self, list: &RunningName, done: &BTreeSet<ListTaskId>, finished: u64) -> io::Result<u64> {
        let running = self.folders.path(State::Running).join(list.to_string());
        let (open, closed) = (self.folders.path(State::Open), self.folders.path(State::Closed));
        let done: Vec<ListTaskId> = tasks(&running)?.intersection(done).copied().collect();
        if !done.is_empty() {
            let name = |finished| closed.join(ClosedName { running: list.clone(), finished }.to_string());
            let finished = next_free(finished, |finished| fs::create_dir(name(finished)))?;
            done.iter().try_for_each(|id| move_task(&running, &name(finished), *id))?;
        }
        // Outputs of a task whose result was not stored as a whole.
        let is_output = |name: &String| name.ends_with(&format!(".{OUT}")) || name.ends_with(&format!(".{ERR}"));
        names(&running)?
            .iter()
            .filter(|name| is_output(name))
            .try_for_each(|name| fs::remove_file(running.join(name)))?;
        // Before the list is open: after a failure, the whole job is repeated.
        self.settle_lists(|name| name.running == *list)?;
        next_free(list.second, |second| rename_new(&running, &open.join(second.to_string())))
    }

    /// Completes the moves of a killed server.
    fn finish_leftovers(&mut self) {
        remove_drafts(&self.folders.path(State::New), SERVER);
        self.may_exist = true;
        let mut finish = || {
            let [completed, failed] = [State::Completed, State::Failed].map(|state| self.folders.path(state));
            for id in tasks(&completed)? {
                self.archive(id)?;
            }
            for id in tasks(&failed)? {
                self.judge(id)?;
            }
            self.settle_lists(|_| true)
        };
        if let Err(error) = finish() {
            log::error!("what the last server has left cannot be moved: {error}; the next start tries again");
        }
        // Duplicates of later failures are new.
        self.may_exist = false;
    }

    /// Moves the tasks of closed lists onwards, and removes the lists.
    fn settle_lists(&mut self, is_wanted: impl Fn(&ClosedName) -> bool) -> io::Result<()> {
        let closed = self.folders.path(State::Closed);
        for name in names(&closed)? {
            if let Some(list) = name.parse().ok().filter(&is_wanted) {
                let folder = closed.join(name);
                self.complete_moves(&list.running, &folder)?;
                for id in tasks(&folder)? {
                    self.settle(&folder, id)?;
                }
                remove_list(&folder);
            }
        }
        Ok(())
    }

    /// Completes the moves of a server that was killed while it reopened a list: what has been moved of a task is in `closed`, the rest
    /// still in `running/`.
    fn complete_moves(&self, list: &RunningName, closed: &Path) -> io::Result<()> {
        if self.may_exist {
            let running = self.folders.path(State::Running).join(list.to_string());
            let moved = tasks_with(closed, OUT)?;
            let mut left = moved.into_iter().filter(|id| running.join(file_name(*id, TASK)).symlink_metadata().is_ok());
            left.try_for_each(|id| move_task(&running, closed, id))?;
        }
        Ok(())
    }

    /// Moves a task of a closed list to its end. A task whose outputs have been moved already goes where they are.
    fn settle(&mut self, closed: &Path, id: ListTaskId) -> io::Result<()> {
        let err = closed.join(file_name(id, ERR));
        let failed = self.folders.path(State::Failed);
        let complaints = err.symlink_metadata().map(|metadata| metadata.len());
        if complaints.as_ref().is_ok_and(|bytes| *bytes == 0) {
            fs::remove_file(&err)?;
        }
        if complaints.is_ok_and(|bytes| bytes > 0) || failed.join(file_name(id, ERR)).symlink_metadata().is_ok() {
            move_task(closed, &failed, id)?;
            self.judge(id)
        } else {
            move_files(closed, &self.folders.path(State::Completed), id, &[OUT])?;
            self.archive(id)
        }
    }

    fn archive(&self, id: ListTaskId) -> io::Result<()> {
        move_files(&self.folders.path(State::Completed), &self.folders.path(State::CompletedArchive), id, &[OUT])
    }

    /// Moves a failed task on, after its duplicate was made.
    fn judge(&mut self, id: ListTaskId) -> io::Result<()> {
        let failed = self.folders.path(State::Failed);
        let state = match self.begun(id) {
            Some(state) => state,
            None => match task::judge(&read_task(&failed, id)?, super::seconds(clock::now().wall)) {
                Fate::Count => State::FailedCount,
                Fate::Time => State::FailedTime,
                Fate::Again(duplicate) => {
                    self.duplicate(id, &duplicate)?;
                    State::FailedArchive
                }
            },
        };
        move_task(&failed, &self.folders.path(state), id)?;
        self.repeated.remove(&id);
        Ok(())
    }

    /// The folder to which a task is being moved: its stdout, which always exists, moves first.
    fn begun(&self, id: ListTaskId) -> Option<State> {
        let ends = [State::FailedArchive, State::FailedTime, State::FailedCount];
        let has = |state, ending| self.folders.file(state, id, ending).symlink_metadata().is_ok();
        if has(State::Failed, OUT) {
            return None;
        }
        ends.into_iter().find(|state| has(*state, OUT) && !has(*state, TASK))
    }

    /// Makes the duplicate of a failed task, unless it exists.
    fn duplicate(&mut self, id: ListTaskId, task: &Task) -> io::Result<()> {
        if !self.repeated.contains(&id) {
            let made = repeat::make(&self.folders, task, SERVER, self.may_exist)?;
            if made != task.id {
                log::warn!("{id} is repeated as {made}: another task has the id {}", task.id);
            }
            self.repeated.insert(id);
        }
        Ok(())
    }
}

/// Writes the files of a result into the folder of a running list. The `.task` file with ten lines comes last.
fn store(folder: &Path, list: &RunningName, ended: &Ended) -> io::Result<()> {
    let Ended { task, result } = ended;
    write(&folder.join(file_name(task.id, OUT)), &result.out)?;
    let err = folder.join(file_name(task.id, ERR));
    if result.err.is_empty() {
        // An earlier attempt may have left the file.
        match fs::remove_file(err) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    } else {
        write(&err, &result.err)?;
    }
    let ran = RunLines { worker: list.worker.clone(), started: result.started, ended: result.ended };
    append(folder, task, &ran)
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).custom_flags(CAREFUL).open(path)?.write_all(content)
}

/// Adds the three lines to the file of a task, in one write: a new file would cost twenty times as much. A kill within it leaves a
/// file that [`super::recovery`] recognises.
fn append(folder: &Path, task: &Task, ran: &RunLines) -> io::Result<()> {
    let (before, whole) = (task.write(), task.write_ran(ran));
    let (name, length) = (file_name(task.id, TASK), before.len() as u64);
    let mut file = File::options().append(true).custom_flags(CAREFUL).open(folder.join(&name))?;
    match file.metadata()?.len() {
        // The last line of the file has no newline.
        shorter if shorter < length => return write_over(folder, &name, whole.as_bytes()),
        longer if longer > length => file.set_len(length)?,
        _ => {}
    }
    let lines = &whole.as_bytes()[before.len()..];
    let written = file.write(lines)?;
    if written < lines.len() {
        file.set_len(length)?;
        return Err(io::ErrorKind::StorageFull.into());
    }
    Ok(())
}

fn read_task(folder: &Path, id: ListTaskId) -> io::Result<Task> {
    let path = folder.join(file_name(id, TASK));
    let invalid = |error: String| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()));
    let text = read_text(&path).map_err(invalid)?;
    Ok(task::read(id, &text).map_err(|error| invalid(error.to_string()))?.0)
}

/// Removes the folder of a list whose tasks have been moved.
fn remove_list(folder: &Path) {
    // Drafts of a killed server.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().ends_with(".tmp") {
            let _ = fs::remove_file(entry.path());
        }
    }
    if let Err(error) = fs::remove_dir(folder) {
        log::warn!("{} stays: {error}", folder.display());
    }
}
