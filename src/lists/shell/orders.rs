//! Changes of the folders beside a server, or without one: commands add tasks, ask for lists, repeat failed tasks and remove finished
//! ones.

use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use super::folders::{Folders, State, move_task, read_text, remove_drafts, tasks, write_new};
use super::{CLOSE, LOCK, repeat, seconds};
use crate::engine::task;
use crate::engine::task::{ERR, OUT, TASK, Task};
use base::Wall;
use base::lists::ListTaskId;
use proc::lock::{Holder, LockError, StateLock};
use proc::{clock, readable};

/// The lock for new ids, `DIR/.ids.lock`, so that two processes never make the same one.
const IDS: &str = ".ids";

/// Marks the drafts of commands.
const COMMAND: &str = "command";

/// A server answers in a few milliseconds, unless its disk is busy.
const CLOSE_MAX: Duration = Duration::from_secs(10);

/// Why a command cannot do its work.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// A file cannot be written, read or moved.
    #[error("cannot use {path}: {source}", path = path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The lock for ids cannot be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// There is no task with this id that has failed for good.
    #[error("{id} cannot be repeated: {}", state.map_or("there is no such task".to_owned(), |state| format!("it is in {}", state.name())))]
    NotFailed {
        /// The id.
        id: ListTaskId,
        /// Where it is, if it exists.
        state: Option<State>,
    },
    /// A file is not a task.
    #[error("{path} is not a task: {reason}", path = path.display())]
    Invalid {
        /// Its path.
        path: PathBuf,
        /// A sentence.
        reason: String,
    },
    /// No server has the folder.
    #[error("no server has {}; start one with `llts spool server {}`", .0.display(), .0.display())]
    NoServer(PathBuf),
    /// The server does not answer.
    #[error("the server of {} does not answer", .0.display())]
    Silent(PathBuf),
}

/// The fields that new tasks share.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// When they are to be started the latest.
    pub until: Wall,
    /// Seconds.
    pub expected_duration: u64,
    /// Number of runs that may fail.
    pub max_fails: u32,
}

/// Adds a task for each command, in their order, and reports the id of each as soon as it exists.
///
/// # Errors
/// [`OrderError`]; tasks whose ids were reported exist.
pub fn add(
    folders: &Folders,
    commands: impl IntoIterator<Item = String>,
    terms: Terms,
    is_durable: bool,
    mut tell: impl FnMut(ListTaskId),
) -> Result<(), OrderError> {
    let new = folders.path(State::New);
    let failed = |source| OrderError::File { path: new.clone(), source };
    folders.remake().map_err(failed)?;
    let _lock = lock(folders)?;
    let mut nanos = 0;
    for cmd in commands {
        loop {
            let now = clock::now().wall;
            nanos = (now.micros() * 1000).max(nanos + 1);
            let id = ListTaskId { nanos, fails: 0 };
            let task = Task {
                id,
                created: seconds(now),
                until: seconds(terms.until),
                expected_duration: terms.expected_duration,
                max_fails: terms.max_fails,
                cmd: cmd.clone(),
            };
            match write_new(&new, id, COMMAND, &task) {
                // A task that was made by hand.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                outcome => {
                    outcome.map_err(failed)?;
                    tell(id);
                    break;
                }
            }
        }
    }
    if is_durable { folders.sync().map_err(failed) } else { Ok(()) }
}

/// Takes the lock of all processes that make tasks, and removes the drafts of a killed one.
fn lock(folders: &Folders) -> Result<StateLock, OrderError> {
    let lock = StateLock::wait(folders.root(), IDS)?;
    remove_drafts(&folders.path(State::New), COMMAND);
    Ok(lock)
}

/// The server of a folder, if one runs.
#[must_use]
pub fn server(folders: &Folders) -> Option<Holder> {
    StateLock::holder(folders.root(), LOCK)
}

/// Asks the server to form lists of all tasks, and waits until it has.
///
/// # Errors
/// [`OrderError`].
pub fn close(folders: &Folders) -> Result<(), OrderError> {
    if server(folders).is_none() {
        return Err(OrderError::NoServer(folders.root().to_owned()));
    }
    let new = folders.path(State::New);
    let failed = |source| OrderError::File { path: new.clone(), source };
    let watch = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).map_err(|error| failed(error.into()))?;
    watch.add_watch(&new, AddWatchFlags::IN_DELETE).map_err(|error| failed(error.into()))?;
    let path = new.join(CLOSE);
    fs::write(&path, "").map_err(failed)?;
    let deadline = clock::now().mono + CLOSE_MAX;
    while path.symlink_metadata().is_ok() {
        let left = deadline.since(clock::now().mono);
        if left.is_zero() {
            let _ = fs::remove_file(&path);
            return Err(OrderError::Silent(folders.root().to_owned()));
        }
        readable::is_readable(watch.as_fd(), Some(left));
        // An event only wakes; the file itself is checked.
        let _ = watch.read_events();
    }
    Ok(())
}

/// The tasks that have failed for good.
///
/// # Errors
/// When a folder cannot be read.
pub fn failed(folders: &Folders) -> Result<Vec<ListTaskId>, OrderError> {
    let mut ids = Vec::new();
    for state in [State::FailedTime, State::FailedCount] {
        let path = folders.path(state);
        ids.extend(tasks(&path).map_err(|source| OrderError::File { path, source })?);
    }
    ids.sort_unstable();
    Ok(ids)
}

/// Repeats a task that has failed for good: its duplicate is new, and it is archived. A time that has passed is set as far ahead as it
/// was at first. Returns the id of the duplicate.
///
/// # Errors
/// [`OrderError`].
pub fn retry(folders: &Folders, id: ListTaskId) -> Result<ListTaskId, OrderError> {
    let _lock = lock(folders)?;
    let has = |state: &State| folders.file(*state, id, TASK).symlink_metadata().is_ok();
    let Some(state) = [State::FailedTime, State::FailedCount].into_iter().find(has) else {
        let state = super::view::find(folders, id).first().map(|found| found.state);
        return Err(OrderError::NotFailed { id, state });
    };
    let path = folders.file(state, id, TASK);
    let invalid = |reason| OrderError::Invalid { path: path.clone(), reason };
    let text = read_text(&path).map_err(invalid)?;
    let (task, _) = task::read(id, &text).map_err(|error| invalid(error.to_string()))?;
    let mut again = task.again();
    let now = seconds(clock::now().wall);
    if again.until < now {
        again.until = now.saturating_add(task.until.saturating_sub(task.created));
    }
    let failed = |source| OrderError::File { path: path.clone(), source };
    // The duplicate exists if an earlier retry was killed.
    let made = repeat::make(folders, &again, COMMAND, true).map_err(failed)?;
    move_task(&folders.path(state), &folders.path(State::FailedArchive), id).map_err(failed)?;
    Ok(made)
}

/// Removes the tasks of a folder with their outputs; returns their number.
///
/// # Errors
/// [`OrderError`]; the rest stays.
pub fn clean(folders: &Folders, state: State) -> Result<usize, OrderError> {
    let path = folders.path(state);
    let failed = |source| OrderError::File { path: path.clone(), source };
    let ids = tasks(&path).map_err(failed)?;
    for id in &ids {
        // The task comes last, so that a later clean-up finds the leftovers of a kill.
        for ending in [OUT, ERR, TASK] {
            match fs::remove_file(folders.file(state, *id, ending)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
    }
    Ok(ids.len())
}
