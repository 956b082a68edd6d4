//! The folders of a server, one for each state, and the moves between `new/`, `open/` and `running/`.
//!
//! A task is where its `.task` file is. Its outputs move before it, or its whole list moves as one; each move is one atomic rename
//! that replaces no list.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::ListsError;
use crate::engine::server::{Gathered, Sighting, StartError};
use crate::engine::task::{ERR, FILE_BYTES_MAX, OUT, TASK, Task};
use base::lists::{ListTaskId, RunningName};
use base::tdf::WorkerName;
use proc::clock;
use proc::files::file_stamp::{FileStamp, wall};
use proc::files::rename::rename_new;

/// Names that are tried for a list before its folder counts as broken.
const NAMES_MAX: u64 = 10_000;

/// A state of tasks or lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Tasks without a list.
    New,
    /// Lists that wait for a worker.
    Open,
    /// Lists that a worker has.
    Running,
    /// Lists whose tasks have ended.
    Closed,
    /// Tasks that have succeeded, on their way.
    Completed,
    /// Tasks that have succeeded.
    CompletedArchive,
    /// Tasks that have failed, on their way.
    Failed,
    /// Tasks that have failed, and are repeated by a duplicate.
    FailedArchive,
    /// Tasks that have failed, and whose `until` has passed.
    FailedTime,
    /// Tasks that have failed too often.
    FailedCount,
}

impl State {
    /// All states, in the order in which a task passes through them.
    pub const ALL: [Self; 10] = [
        Self::New,
        Self::Open,
        Self::Running,
        Self::Closed,
        Self::Completed,
        Self::CompletedArchive,
        Self::Failed,
        Self::FailedArchive,
        Self::FailedTime,
        Self::FailedCount,
    ];

    /// The final states of tasks.
    pub const ENDS: [Self; 4] = [Self::CompletedArchive, Self::FailedArchive, Self::FailedTime, Self::FailedCount];

    /// The name of the folder.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Open => "open",
            Self::Running => "running",
            Self::Closed => "closed",
            Self::Completed => "completed",
            Self::CompletedArchive => "completed_archive",
            Self::Failed => "failed",
            Self::FailedArchive => "failed_archive",
            Self::FailedTime => "failed_time",
            Self::FailedCount => "failed_count",
        }
    }

    /// Whether the folder holds lists.
    #[must_use]
    pub const fn has_lists(self) -> bool {
        matches!(self, Self::Open | Self::Running | Self::Closed)
    }
}

/// The folders of one root.
#[derive(Clone, Debug)]
pub struct Folders {
    root: PathBuf,
}

/// The name of one of the files of a task.
#[must_use]
pub(super) fn file_name(id: ListTaskId, ending: &str) -> String {
    format!("{id}.{ending}")
}

/// Whether a name in a folder is neither a draft nor a backup.
#[must_use]
pub(super) fn is_candidate(name: &str) -> bool {
    !(name.is_empty() || name.starts_with('.') || name.ends_with(".tmp") || name.ends_with('~'))
}

impl Folders {
    /// Makes missing folders.
    pub(super) fn make(root: &Path) -> Result<Self, ListsError> {
        let failed = |source| ListsError::Folder { path: root.to_owned(), source };
        fs::create_dir_all(root).map_err(failed)?;
        let folders = Self::at(root)?;
        folders.remake().map_err(failed)?;
        let device = |path: &Path| path.metadata().map(|metadata| metadata.dev()).map_err(failed);
        for state in State::ALL {
            if device(&folders.path(state))? != device(&folders.root)? {
                return Err(ListsError::OtherDevice(folders.path(state)));
            }
        }
        Ok(folders)
    }

    /// The folders of a root that exists; those in it may be missing.
    ///
    /// # Errors
    /// When there is no such folder.
    pub fn at(root: &Path) -> Result<Self, ListsError> {
        // The present path: a relative path would mislead its reader.
        let root = root.canonicalize().map_err(|source| ListsError::Folder { path: root.to_owned(), source })?;
        Ok(Self { root })
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a state.
    #[must_use]
    pub fn path(&self, state: State) -> PathBuf {
        self.root.join(state.name())
    }

    /// The path of one of the files of a task.
    #[must_use]
    pub fn file(&self, state: State, id: ListTaskId, ending: &str) -> PathBuf {
        self.path(state).join(file_name(id, ending))
    }

    pub(super) fn remake(&self) -> io::Result<()> {
        State::ALL.into_iter().try_for_each(|state| fs::create_dir_all(self.path(state)))
    }

    /// Syncs everything below the root with one call, however many files there are.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(File::open(&self.root)?)?)
    }

    /// Looks at a file of `new/`; `None` if it is gone.
    pub(super) fn look(&self, name: &str, is_open: bool) -> Option<Sighting> {
        let path = self.path(State::New).join(name);
        let metadata = path.symlink_metadata().ok()?;
        let stamp = FileStamp::from(&metadata);
        let rest = clock::now().wall.since(wall(stamp.modified.max(stamp.changed)));
        let id = name.strip_suffix(TASK).and_then(|stem| stem.strip_suffix('.')?.parse().ok());
        let is_taken = id.is_some_and(|id| {
            State::ENDS.into_iter().any(|state| self.file(state, id, TASK).symlink_metadata().is_ok())
        });
        let is_file = metadata.is_file();
        // The text of anything else does not count, and a device may do something when it is opened.
        let text = if is_file { read_text(&path) } else { Ok(String::new()) };
        Some(Sighting { text, is_file, rest, is_open, is_taken })
    }

    /// Moves tasks to a list of their own, which has this second or the next free one.
    pub(super) fn gather(&self, second: u64, tasks: &BTreeSet<ListTaskId>) -> Gathered {
        let mut gathered = Gathered { second, moved: BTreeSet::new(), failure: None };
        let open = self.path(State::Open);
        let named = next_free(second, |second| fs::create_dir(open.join(second.to_string())));
        let folder = match named {
            Ok(second) => {
                gathered.second = second;
                open.join(second.to_string())
            }
            Err(error) => return Gathered { failure: Some(error.to_string()), ..gathered },
        };
        for id in tasks {
            match fs::rename(self.file(State::New, *id, TASK), folder.join(file_name(*id, TASK))) {
                Ok(()) => {
                    gathered.moved.insert(*id);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    gathered.failure = Some(error.to_string());
                    break;
                }
            }
        }
        if gathered.moved.is_empty() {
            // The folder is empty, or another program has put a file there.
            let _ = fs::remove_dir(&folder);
        }
        gathered
    }

    /// Moves a list from `open/` to `running/`.
    pub(super) fn start(&self, second: u64, worker: &WorkerName, started: u64) -> Result<RunningName, StartError> {
        let from = self.path(State::Open).join(second.to_string());
        let running = self.path(State::Running);
        let name = |started| RunningName { second, worker: worker.clone(), started };
        match next_free(started, |started| rename_new(&from, &running.join(name(started).to_string()))) {
            Ok(started) => Ok(name(started)),
            Err(_) if from.symlink_metadata().is_err() => Err(StartError::Vanished),
            Err(error) => Err(StartError::Stuck(error.to_string())),
        }
    }

    /// The names in a folder, without drafts and backups. Names that are not UTF-8 are replaced, and found by no other function.
    pub(super) fn names(&self, state: State) -> io::Result<Vec<String>> {
        names(&self.path(state))
    }
}

/// The names in a folder, without drafts and backups.
pub(super) fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if is_candidate(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// The ids of the tasks in a folder, in order. Links, folders and pipes are no tasks, with any name.
pub(super) fn tasks(folder: &Path) -> io::Result<BTreeSet<ListTaskId>> {
    tasks_with(folder, TASK)
}

/// The ids of the tasks of which a folder has the file with this ending.
pub(super) fn tasks_with(folder: &Path, ending: &str) -> io::Result<BTreeSet<ListTaskId>> {
    let mut tasks = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_suffix(ending)?.strip_suffix('.')?.parse().ok());
        if let Some(id) = id.filter(|_| entry.file_type().is_ok_and(|kind| kind.is_file())) {
            tasks.insert(id);
        }
    }
    Ok(tasks)
}

/// Tries an act with this second, and with the next ones while the name is taken.
pub(super) fn next_free(second: u64, mut act: impl FnMut(u64) -> io::Result<()>) -> io::Result<u64> {
    for second in (second..).take(NAMES_MAX as usize) {
        match act(second) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            outcome => return outcome.map(|()| second),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("{NAMES_MAX} names from {second} on are taken")))
}

/// Moves the files of a task, its `.task` file last.
pub(super) fn move_task(from: &Path, to: &Path, id: ListTaskId) -> io::Result<()> {
    move_files(from, to, id, &[OUT, ERR])
}

/// Moves the files of a task with these outputs, its `.task` file last. A missing output was moved before, or never existed.
pub(super) fn move_files(from: &Path, to: &Path, id: ListTaskId, outputs: &[&str]) -> io::Result<()> {
    for ending in outputs {
        let name = file_name(id, ending);
        match fs::rename(from.join(&name), to.join(&name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            outcome => outcome?,
        }
    }
    let name = file_name(id, TASK);
    fs::rename(from.join(&name), to.join(&name))
}

/// Writes a file in one step: under another name, and then renamed over an old one.
pub(super) fn write_over(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let draft = folder.join(format!(".{name}.tmp"));
    let written = fs::write(&draft, content).and_then(|()| fs::rename(&draft, folder.join(name)));
    if written.is_err() {
        // The disk is full, or the file does not exist.
        let _ = fs::remove_file(&draft);
    }
    written
}

/// Writes the file of a task, which must not exist, in one step. Drafts of one kind of writer are written under a lock.
pub(super) fn write_new(folder: &Path, id: ListTaskId, writer: &str, task: &Task) -> io::Result<()> {
    let name = file_name(id, TASK);
    let draft = folder.join(format!(".{name}{}", draft_ending(writer)));
    let written = fs::write(&draft, task.write()).and_then(|()| rename_new(&draft, &folder.join(name)));
    if written.is_err() {
        // The name is taken, or there is no room.
        let _ = fs::remove_file(&draft);
    }
    written
}

fn draft_ending(writer: &str) -> String {
    format!(".{writer}.tmp")
}

/// Removes the drafts of killed writers of this kind.
pub(super) fn remove_drafts(folder: &Path, writer: &str) {
    let ending = draft_ending(writer);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().ends_with(&ending) {
            // The next such writer tries again.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The text of a file, or why there is none.
pub(super) fn read_text(path: &Path) -> Result<String, String> {
    let bytes = read_file(path, FILE_BYTES_MAX as u64).map_err(|error| error.to_string())?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(format!("it has more than {FILE_BYTES_MAX} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| format!("it is not UTF-8: {}", error.utf8_error()))
}

/// Flags that follow no link and wait for no reader of a pipe: another program may have put anything under the name.
pub(super) const CAREFUL: i32 = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;

/// The content of a regular file, up to one byte more than `bytes_max`, without following a link and without blocking.
pub(super) fn read_file(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = File::options().read(true).custom_flags(CAREFUL).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
