//! The work folder of an agent: one fresh folder per task, the files that the tool left in it, and its removal.
//!
//! Layout of `AGENT_WORK_DIR`, which several agents of one host may share:
//!
//! ```text
//! <TASK_ID>/            one run; 0700; task.info, stdout, stderr, and the tool's folder
//! .trash/<TASK_ID>-*/   a folder that is being removed
//! .spare/*/             a folder that the next task of the same tool may get: see [`dir_pool`]
//! .outputs/<AGENT_ID>/  the outputs of earlier runs of an agent: see [`crate::outputs`]
//! .out/<graph>/         what tasks of a step graph have left for others: see [`out_folders`]
//! ```
//!
//! A tool can write to its folder and may have replaced any name in it with anything. So all access goes through the
//! descriptor of the folder, no link is followed, and nothing is opened that could block.

mod dir_pool;
mod homes;
mod out_folders;
mod outputs;
mod own;
mod pinned_file;
mod pinned_folder;
mod remover;
mod reusable_dir;
mod spare_out;
mod step_dir;
mod step_folders;
mod sys;
mod tail;

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

pub use dir_pool::DirPool;
pub use homes::Homes;
pub use out_folders::{OutFolder, OutKeeper, OutLimits};
pub use remover::{Remover, TrashRemainder};
pub(crate) use tail::open_regular;
use tail::tail_of;
pub use tail::{Tail, TailLimit, tail_of_text};

pub(crate) use own::make_folder;
use own::{move_to_trash, restore_mode};
use pinned_file::PinnedFile;
use reusable_dir::{OwnFile, ReusableDir};

use base::{TaskId, ToolName};
use proc::files::removal;
use proc::files::removal::Progress;

const TRASH: &str = ".trash";

const OWNER_ONLY: Mode = Mode::RWXU;

/// A failed operation in the work folder.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {path:?}: {source}")]
pub struct WorkspaceError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// The work folder.
#[derive(Debug)]
pub struct Workspace {
    path: PathBuf,
    folder: OwnedFd,
    /// The mode of the folder when it was opened.
    mode: Mode,
    trash: OwnedFd,
}

/// The folder of one run.
#[derive(Debug)]
pub struct TaskDir {
    name: String,
    path: PathBuf,
    folder: OwnedFd,
    /// The files made by llts.
    files: Vec<OwnFile>,
    /// The copy of the tool, if the folder can be reused.
    reusable: Option<ReusableDir>,
}

/// The folder of a tool, open.
#[derive(Debug)]
pub enum ToolFolder<'a> {
    /// Open since its copy was made.
    Kept(BorrowedFd<'a>),
    /// Opened for one start.
    Opened(OwnedFd),
}

impl ToolFolder<'_> {
    /// The folder, for a thread.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub fn into_owned(self) -> Result<OwnedFd, WorkspaceError> {
        match self {
            Self::Opened(folder) => Ok(folder),
            Self::Kept(folder) => folder.try_clone_to_owned().map_err(|source| WorkspaceError {
                action: "open",
                path: PathBuf::from("the folder of a tool"),
                source,
            }),
        }
    }
}

impl AsFd for ToolFolder<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Kept(folder) => *folder,
            Self::Opened(folder) => folder.as_fd(),
        }
    }
}

/// The result of a removal within its budget.
#[derive(Debug)]
#[must_use]
pub enum Removed {
    /// No process is left.
    Done,
    /// The folder is in the trash, but not empty yet: hand this to a [`Remover`].
    Rest(TrashRemainder),
    /// The folder could not even be moved to the trash; the removable part was removed in place.
    Left(WorkspaceError),
}

impl Workspace {
    /// Opens the work folder and its trash, and makes both if they do not exist. The path is made absolute.
    ///
    /// # Errors
    /// When one of them can neither be opened nor made.
    pub fn open(path: &Path) -> Result<Self, WorkspaceError> {
        let failed_at = |path: &Path, error| WorkspaceError { action: "open", path: path.to_owned(), source: error };
        let failed = |error| WorkspaceError { action: "open the work folder", path: path.to_owned(), source: error };
        std::fs::create_dir_all(path).map_err(failed)?;
        let path = path.canonicalize().map_err(failed)?;
        let open = || -> rustix::io::Result<_> {
            let folder = removal::open_folder(rustix::fs::CWD, &path)?;
            make_folder(&folder, TRASH)?;
            let mode = Mode::from_raw_mode(rustix::fs::fstat(&folder)?.st_mode) | OWNER_ONLY;
            Ok((folder, mode))
        };
        let (folder, mode) = open().map_err(|error| failed(error.into()))?;
        // Otherwise the content of a mount that a tool has made there would be taken for trash.
        let place = path.join(TRASH);
        let trash =
            open_own(folder.as_fd(), TRASH).map_err(|error| failed_at(&place, removal::explained(error, &place)))?;
        Ok(Self { path, folder, mode, trash })
    }

    /// The absolute path of the work folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the folder was removed since it was opened. It takes one call of the system.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        rustix::fs::fstat(&self.folder).is_ok_and(|about| about.st_nlink == 0)
    }

    /// Whether the folder was removed or moved since it was opened.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let (named, open) = (rustix::fs::stat(&self.path), rustix::fs::fstat(&self.folder));
        match (named, open) {
            (Ok(named), Ok(open)) => (named.st_dev, named.st_ino) != (open.st_dev, open.st_ino),
            (Err(error), _) => error == Errno::NOENT,
            (_, Err(_)) => false,
        }
    }

    /// Makes the folder of a run, empty and for the owner only. A folder of the same name, left by an agent that died, is
    /// moved to the trash; hand that remainder to a [`Remover`].
    ///
    /// # Errors
    /// When it cannot be made, or when a leftover cannot be moved.
    pub fn create(&self, task: TaskId) -> Result<(TaskDir, Option<TrashRemainder>), WorkspaceError> {
        let name = task.to_string();
        let path = self.path.join(&name);
        let failed = |error: Errno| WorkspaceError { action: "make", path: path.clone(), source: error.into() };
        let mut leftover = None;
        match self.accessible(|| rustix::fs::mkdirat(&self.folder, &name, OWNER_ONLY)) {
            Ok(()) => {}
            Err(Errno::EXIST) => {
                leftover = self.to_trash(&name).map_err(failed)?;
                rustix::fs::mkdirat(&self.folder, &name, OWNER_ONLY).map_err(failed)?;
            }
            Err(error) => return Err(failed(error)),
        }
        let folder = removal::open_folder(self.folder.as_fd(), Path::new(&name)).map_err(failed)?;
        Ok((TaskDir { name, path, folder, files: Vec::new(), reusable: None }, leftover))
    }

    /// Moves the folder that a dead agent has left of a run to the trash; `None` if there is none. Not for a task whose
    /// next round runs on this host: its folder has the same name.
    ///
    /// # Errors
    /// When it exists and cannot be moved.
    pub fn discard(&self, task: TaskId) -> Result<Option<TrashRemainder>, WorkspaceError> {
        let name = task.to_string();
        self.to_trash(&name).map_err(|error| self.left(&name, error))
    }

    /// Removes the folder of a run: it is out of sight at once, then up to `budget` entries are removed. Its name no longer
    /// exists after this, so FINISHED may follow; [`Removed::Left`] is the only exception.
    ///
    /// A folder of the same name that belongs to another run, because another agent runs the next round, is left alone. A folder that
    /// the run has renamed beside the others goes, too.
    pub fn remove(&self, task: TaskDir, budget: u32) -> Removed {
        let name = if self.is_in_place(&task) { Some(task.name.clone()) } else { self.renamed(&task) };
        let Some(name) = name else { return Removed::Done };
        let Ok(name) = CString::new(name.as_str()) else {
            return Removed::Left(self.left(&task.name, Errno::INVAL));
        };
        drop(task);
        self.remove_from(self.folder.as_fd(), &name, budget)
    }

    /// Repeats a call that fails for want of permission, after restoring the modes of the agent's folders: a tool runs as
    /// the same user, and can change the modes for all of its agents.
    fn accessible<T>(&self, call: impl Fn() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
        match call() {
            Err(Errno::ACCESS) => {
                let repaired = [
                    restore_mode(self.folder.as_fd(), self.mode, &self.path)?,
                    restore_mode(self.trash.as_fd(), OWNER_ONLY, &self.path.join(TRASH))?,
                ];
                if repaired.contains(&true) { call() } else { Err(Errno::ACCESS) }
            }
            other => other,
        }
    }

    fn remove_from(&self, parent: BorrowedFd<'_>, name: &CStr, budget: u32) -> Removed {
        let mut budget = removal::Budget::of(budget);
        let moved = match self.accessible(|| move_to_trash(parent, name, self.trash.as_fd())) {
            // A folder that its owner may not write to cannot be moved either.
            Err(Errno::ACCESS) => {
                removal::make_accessible(parent, name).and_then(|()| move_to_trash(parent, name, self.trash.as_fd()))
            }
            other => other,
        };
        match moved {
            Ok(None) => Removed::Done,
            Ok(Some(rest)) => match removal::remove_tree(self.trash.as_fd(), rest.name(), &mut budget) {
                Progress::Gone => Removed::Done,
                Progress::OutOfBudget | Progress::Stuck(_) => Removed::Rest(rest),
            },
            // A full disk can make the move fail: removing in place frees space.
            Err(_) if removal::remove_tree(parent, name, &mut budget).is_gone() => Removed::Done,
            Err(error) => Removed::Left(self.left(&name.to_string_lossy(), error)),
        }
    }

    /// Whether the name still leads to the folder that was made for this run.
    fn is_in_place(&self, task: &TaskDir) -> bool {
        let leads_there = || {
            let named = self.accessible(|| rustix::fs::statat(&self.folder, &task.name, AtFlags::SYMLINK_NOFOLLOW));
            let own = rustix::fs::fstat(&task.folder);
            matches!((named, own), (Ok(a), Ok(b)) if (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino))
        };
        leads_there()
            || CString::new(task.name.as_str())
                .is_ok_and(|name| removal::detach_at_or_below(self.folder.as_fd(), &name) && leads_there())
    }

    /// The name that a run has given to its folder, if that is still in the work folder.
    fn renamed(&self, task: &TaskDir) -> Option<String> {
        let path = std::fs::read_link(format!("/proc/self/fd/{}", task.folder.as_raw_fd())).ok()?;
        let name = path.file_name()?.to_str()?;
        let named = rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let own = rustix::fs::fstat(&task.folder).ok()?;
        ((named.st_dev, named.st_ino) == (own.st_dev, own.st_ino)).then(|| name.to_owned())
    }

    fn to_trash(&self, name: &str) -> rustix::io::Result<Option<TrashRemainder>> {
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        self.accessible(|| move_to_trash(self.folder.as_fd(), &name, self.trash.as_fd()))
    }

    fn left(&self, name: &str, error: Errno) -> WorkspaceError {
        WorkspaceError { action: "remove", path: self.path.join(name), source: error.into() }
    }
}

/// Opens a folder of the agents, after unmounting what a tool may have mounted there.
fn open_own(work: BorrowedFd<'_>, name: &str) -> rustix::io::Result<OwnedFd> {
    removal::uncovered(work, &CString::new(name).map_err(|_| Errno::INVAL)?)
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
    /// When the name exists, or when the file cannot be written completely.
    pub fn write_file(&mut self, name: &str, bytes: &[u8]) -> Result<(), WorkspaceError> {
        let written = self.own_file(name, OFlags::RDWR)?.rewrite(bytes);
        written.map_err(|error| self.failed("write", name, error.into()))
    }

    /// Makes a new file, for the owner only, for the standard output or error of a run.
    ///
    /// # Errors
    /// When the name exists, or when the file cannot be made.
    pub fn create_output(&mut self, name: &str) -> Result<(), WorkspaceError> {
        // In append mode, so that a run that truncates the file does not leave a hole of zeros before its next output.
        let written = self.own_file(name, OFlags::RDWR | OFlags::APPEND)?.rewrite(b"");
        written.map_err(|error| self.failed("make", name, error.into()))
    }

    /// Opens an output only for the run that is about to start: any process that has it open after the end of the run has
    /// received it from the run.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open_output(&self, name: &str) -> Result<File, WorkspaceError> {
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.folder, name, flags, Mode::empty());
        opened.map(File::from).map_err(|error| self.failed("open", name, error.into()))
    }

    /// Makes the empty folder of an operation that needs no tool.
    ///
    /// # Errors
    /// When the name exists, or when the folder cannot be made.
    pub fn make_folder(&self, operation: &ToolName) -> Result<(), WorkspaceError> {
        let name = operation.folder_name();
        let made = rustix::fs::mkdirat(&self.folder, name, Mode::RWXU);
        made.map_err(|error| self.failed("make", name, error.into()))
    }

    /// The folder of the tool, where run.sh is started.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn tool_folder(&self, tool: &ToolName) -> Result<ToolFolder<'_>, WorkspaceError> {
        if let Some(folder) = self.reusable.as_ref().and_then(ReusableDir::tool_folder) {
            return Ok(ToolFolder::Kept(folder));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.folder, tool.folder_name(), flags, Mode::empty());
        opened.map(ToolFolder::Opened).map_err(|error| self.failed("open", tool.folder_name(), error.into()))
    }

    /// The end of an output, whatever the tool has done to its name.
    #[must_use]
    pub fn output_tail(&self, name: &str, limit: TailLimit) -> Tail {
        self.files.iter().find(|file| file.is_called(name)).map(|file| tail_of(file, limit)).unwrap_or_default()
    }

    /// The end of a file that the tool wrote, in the subfolder `folders`: empty if the file does not exist, or is not a
    /// regular file with one name (a link, a named pipe, a device, a folder).
    #[must_use]
    pub fn tail(&self, folders: &[&str], name: &str, limit: TailLimit) -> Tail {
        tail::open_regular(self.folder.as_fd(), folders, name).map(|file| tail_of(&file, limit)).unwrap_or_default()
    }

    /// A file that is new to this run: just made, or left by the previous run in this folder.
    fn own_file(&mut self, name: &str, access: OFlags) -> Result<&mut OwnFile, WorkspaceError> {
        let index = match self.files.iter().position(|file| file.is_called(name) && !file.in_use) {
            Some(index) => index,
            None => {
                let mut file =
                    self.create_file(name, access).map_err(|error| self.failed("make", name, error.into()))?;
                if self.reusable.is_some() && file.note().is_err() {
                    self.reusable = None;
                }
                self.files.push(file);
                self.files.len() - 1
            }
        };
        Ok(&mut self.files[index])
    }

    fn create_file(&self, name: &str, access: OFlags) -> rustix::io::Result<OwnFile> {
        if name.contains('/') {
            return Err(Errno::INVAL);
        }
        let flags = access | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = rustix::fs::openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR)?;
        let is_output = access.contains(OFlags::APPEND);
        Ok(OwnFile::new(CString::new(name).map_err(|_| Errno::INVAL)?, PinnedFile::new(descriptor), is_output))
    }

    fn failed(&self, action: &'static str, name: &str, error: io::Error) -> WorkspaceError {
        WorkspaceError { action, path: self.path.join(name), source: error }
    }
}
