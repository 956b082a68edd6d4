//! The work folder of an agent: one fresh folder per task, what the tool left in it, and its removal.
//!
//! Layout of `AGENT_WORK_DIR`, which several agents of one host may share:
//!
//! ```text
//! <TASK_ID>/            one run; 0700; task.info, stdout, stderr, and the tool's folder
//! .trash/<TASK_ID>-*/   what is being removed
//! ```
//!
//! A tool owns its folder and may have turned any name in it into anything. So everything is reached by the descriptor of the
//! folder, no link is followed, and nothing is opened that could block.

mod remove;
mod remover;
mod tail;

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

pub use remover::{Remover, TrashRemainder};
pub use tail::{TailLimit, tail_of};

use crate::types::TaskId;

const TRASH: &str = ".trash";

const OWNER_ONLY: Mode = Mode::RWXU;

/// Something that could not be done in the work folder.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {path:?}: {error}")]
pub struct WorkspaceError {
    action: &'static str,
    path: PathBuf,
    error: io::Error,
}

/// The work folder.
#[derive(Debug)]
pub struct Workspace {
    path: PathBuf,
    folder: OwnedFd,
    trash: OwnedFd,
}

/// The folder of one run.
#[derive(Debug)]
pub struct TaskDir {
    name: String,
    path: PathBuf,
    folder: OwnedFd,
}

/// What became of a removal within its budget.
#[derive(Debug)]
#[must_use]
pub enum Removed {
    /// Nothing is left.
    Done,
    /// The folder is out of the way, in the trash, but not empty yet: hand this to a [`Remover`].
    Rest(TrashRemainder),
    /// It could not even be moved to the trash; what could be removed in place is.
    Left(WorkspaceError),
}

impl Workspace {
    /// Opens the work folder and its trash, and makes both if they are not there. The path is made absolute.
    ///
    /// # Errors
    /// When one of them can neither be found nor made.
    pub fn open(path: &Path) -> Result<Self, WorkspaceError> {
        let failed = |error| WorkspaceError { action: "open the work folder", path: path.to_owned(), error };
        std::fs::create_dir_all(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        let open = || {
            let folder = remove::open_folder(rustix::fs::CWD, &path)?;
            match rustix::fs::mkdirat(&folder, TRASH, OWNER_ONLY) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
            let trash = remove::open_folder(folder.as_fd(), Path::new(TRASH))?;
            Ok((folder, trash))
        };
        let (folder, trash) = open().map_err(|error| failed(error.into()))?;
        Ok(Self { path, folder, trash })
    }

    /// Makes the folder of a run, empty and for the owner only. If one of this name is there, left by an agent that died,
    /// it goes to the trash; hand that remainder to a [`Remover`].
    ///
    /// # Errors
    /// When it cannot be made, or when a leftover cannot be moved.
    pub fn create(&self, task: TaskId) -> Result<(TaskDir, Option<TrashRemainder>), WorkspaceError> {
        let name = task.to_string();
        let path = self.path.join(&name);
        let failed = |error: Errno| WorkspaceError { action: "make", path: path.clone(), error: error.into() };
        let mut leftover = None;
        match rustix::fs::mkdirat(&self.folder, &name, OWNER_ONLY) {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                leftover = self.to_trash(&name).map_err(failed)?;
                rustix::fs::mkdirat(&self.folder, &name, OWNER_ONLY).map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
        }
        let folder = remove::open_folder(self.folder.as_fd(), Path::new(&name)).map_err(failed)?;
        Ok((TaskDir { name, path, folder }, leftover))
    }

    /// Moves to the trash what a dead agent left of a run; `None` if there is nothing. Not for a task whose next round runs
    /// on this host: its folder has the same name.
    ///
    /// # Errors
    /// When it is there and cannot be moved.
    pub fn discard(&self, task: TaskId) -> Result<Option<TrashRemainder>, WorkspaceError> {
        let name = task.to_string();
        self.to_trash(&name).map_err(|error| self.left(&name, error))
    }

    /// Removes the folder of a run: at once out of sight, then up to `budget` entries. Nothing of its name is left after
    /// this, so that FINISHED may follow; only [`Removed::Left`] is another matter.
    ///
    /// A folder of the same name that is not this run's own, because another agent runs the next round, is left alone.
    pub fn remove(&self, task: TaskDir, budget: u32) -> Removed {
        if !self.is_in_place(&task) {
            return Removed::Done;
        }
        let mut budget = remove::Budget::of(budget);
        let moved = match self.to_trash(&task.name) {
            // A folder that its owner may not write to cannot be moved either.
            Err(Errno::ACCESS) => {
                let _ = rustix::fs::fchmod(&task.folder, OWNER_ONLY);
                self.to_trash(&task.name)
            }
            other => other,
        };
        drop(task.folder);
        match moved {
            Ok(None) => Removed::Done,
            Ok(Some(rest)) => match remove::remove_tree(self.trash.as_fd(), rest.name(), &mut budget) {
                remove::Progress::Gone => Removed::Done,
                remove::Progress::OutOfBudget | remove::Progress::Stuck(_) => Removed::Rest(rest),
            },
            // A full disk can refuse the move: removing in place makes room.
            Err(error) => match CString::new(task.name.as_str()) {
                Ok(name) if remove::remove_tree(self.folder.as_fd(), &name, &mut budget).is_gone() => Removed::Done,
                Ok(_) | Err(_) => Removed::Left(self.left(&task.name, error)),
            },
        }
    }

    /// Whether the name still leads to the folder that was made for this run.
    fn is_in_place(&self, task: &TaskDir) -> bool {
        let named = rustix::fs::statat(&self.folder, &task.name, AtFlags::SYMLINK_NOFOLLOW);
        let own = rustix::fs::fstat(&task.folder);
        matches!((named, own), (Ok(a), Ok(b)) if (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino))
    }

    fn to_trash(&self, name: &str) -> rustix::io::Result<Option<TrashRemainder>> {
        /// Tells apart what one process puts into the trash; its pid does it for several.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let target = CString::new(format!("{name}-{}-{n}", std::process::id())).map_err(|_| Errno::INVAL)?;
            match rustix::fs::renameat(&self.folder, name, &self.trash, &target) {
                Ok(()) => return Ok(Some(TrashRemainder::new(target))),
                Err(Errno::NOENT) => return Ok(None),
                // Of an earlier process with our pid.
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR | Errno::ISDIR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn left(&self, name: &str, error: Errno) -> WorkspaceError {
        WorkspaceError { action: "remove", path: self.path.join(name), error: error.into() }
    }
}

impl TaskDir {
    /// The absolute path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a new file, for the owner only.
    ///
    /// # Errors
    /// When there is one of this name, or when it cannot be written whole.
    pub fn write_file(&self, name: &str, bytes: &[u8]) -> Result<(), WorkspaceError> {
        let mut file = self.create_file(name, OFlags::WRONLY)?;
        file.write_all(bytes).map_err(|error| self.failed("write", name, error))
    }

    /// Makes a new file, for the owner only, that takes the standard output or error of a run. Keep it: [`tail_of`] reads
    /// what was written into this very file, whatever the tool has done to its name.
    ///
    /// # Errors
    /// When there is one of this name, or when it cannot be made.
    pub fn create_output(&self, name: &str) -> Result<File, WorkspaceError> {
        // Appending, so that a run that truncates the file does not leave a hole of zeros before what it writes next.
        self.create_file(name, OFlags::RDWR | OFlags::APPEND)
    }

    /// The end of a file that the tool wrote, `folders` down from here: "" if it is not there, or is not a regular file of
    /// its own (a link, a named pipe, a device, a folder).
    #[must_use]
    pub fn tail(&self, folders: &[&str], name: &str, limit: TailLimit) -> String {
        tail::open_regular(self.folder.as_fd(), folders, name).map(|file| tail_of(&file, limit)).unwrap_or_default()
    }

    fn create_file(&self, name: &str, access: OFlags) -> Result<File, WorkspaceError> {
        if name.contains('/') {
            return Err(self.failed("make", name, io::ErrorKind::InvalidFilename.into()));
        }
        let flags = access | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR)
            .map(File::from)
            .map_err(|error| self.failed("make", name, error.into()))
    }

    fn failed(&self, action: &'static str, name: &str, error: io::Error) -> WorkspaceError {
        WorkspaceError { action, path: self.path.join(name), error }
    }
}
