//! Removes folders in which tools have run. This program uses nothing else to remove folders: a mount that a tool has
//! made in its folder gives access to other people's data, and the standard library would descend into it.
//!
//! A mount is never crossed, at any depth and on any device. A folder with a mount in it stays, is named in the log,
//! and is removed once it has been unmounted: by this module, if a tool has mounted it and the system permits that.

mod mounts;
mod tree;

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use base::quoted_path;

pub(crate) use mounts::unescaped;
pub use mounts::{detach_at_or_below, is_mount_at_or_below};
pub use tree::{Budget, Progress, make_accessible, open_folder, open_on_mount, path_of, remove_tree};

/// Why a file or folder, or part of a folder, could not be removed.
#[derive(Debug, thiserror::Error)]
#[error("cannot remove all of {}: {reason}", .path.display())]
pub struct RemovalError {
    path: PathBuf,
    reason: Reason,
}

#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error("something is mounted in it; unmount it, then remove the rest")]
    Mount,
    #[error(transparent)]
    System(#[from] Errno),
}

/// Removes a folder with its contents, or a file. A missing path is not an error.
///
/// # Errors
/// [`RemovalError`], when part of it stays: a mount, something immutable, or another user's file.
pub fn remove(path: &Path) -> Result<(), RemovalError> {
    remove_by(path, remove_tree)
}

/// As [`remove`], for a folder in which only tools can have mounted anything. Their mounts are unmounted, if the system
/// permits that.
///
/// # Errors
/// As [`remove`].
pub fn remove_and_unmount(path: &Path) -> Result<(), RemovalError> {
    remove_by(path, remove_tree_and_unmount)
}

type RemoveTree = fn(BorrowedFd<'_>, &CStr, &mut Budget<'_>) -> Progress;

fn remove_by(path: &Path, remove_tree: RemoveTree) -> Result<(), RemovalError> {
    let failed = |reason: Reason| RemovalError { path: path.to_owned(), reason };
    let (parent, name) = match split(path) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        split => split.map_err(|error| failed(error.into()))?,
    };
    match remove_tree(parent.as_fd(), &name, &mut Budget::unlimited()) {
        Progress::Stuck(_) if is_mount_at_or_below(parent.as_fd(), &name) => Err(failed(Reason::Mount)),
        Progress::Stuck(error) => Err(failed(error.into())),
        Progress::Gone | Progress::OutOfBudget => Ok(()),
    }
}

/// Unmounts what a tool has mounted at or below a path of llts. Returns whether at least one mount is gone.
pub fn unmount(path: &Path) -> bool {
    split(path).is_ok_and(|(parent, name)| detach_at_or_below(parent.as_fd(), &name))
}

/// Opens a folder of llts, after unmounting anything that a tool has mounted there.
///
/// # Errors
/// When it does not exist, is not a folder, or stays mounted over.
pub fn open_uncovered(path: &Path) -> io::Result<OwnedFd> {
    let (parent, name) = split(path)?;
    uncovered(parent.as_fd(), &name).map_err(|error| explained(error, path))
}

/// As [`open_uncovered`], for an entry of `parent`.
pub fn uncovered(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    match open_on_mount(parent, name) {
        Err(Errno::XDEV) if detach_at_or_below(parent, name) => open_on_mount(parent, name),
        opened => opened,
    }
}

/// Why a folder of llts cannot be opened. If something is mounted there, the error names the remedy.
pub fn explained(error: Errno, path: &Path) -> io::Error {
    match error {
        Errno::XDEV => {
            let sentence = format!("something is mounted there; run `umount {}`", quoted_path(path));
            io::Error::new(io::ErrorKind::CrossesDevices, sentence)
        }
        other => other.into(),
    }
}

/// The parent folder of a path, open, and the name of the entry in it.
fn split(path: &Path) -> rustix::io::Result<(OwnedFd, CString)> {
    let folder = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let name = path.file_name().and_then(|name| CString::new(name.as_bytes()).ok()).ok_or(Errno::INVAL)?;
    let parent = openat(CWD, folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok((parent, name))
}

/// As [`remove_tree`], but unmounts what a tool has mounted in the folder, if the system permits that.
pub fn remove_tree_and_unmount(parent: BorrowedFd<'_>, name: &CStr, budget: &mut Budget<'_>) -> Progress {
    match remove_tree(parent, name, budget) {
        Progress::Stuck(_) if detach_at_or_below(parent, name) => remove_tree(parent, name, budget),
        progress => progress,
    }
}

/// The current path of an entry of an open folder.
fn path_below(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<PathBuf> {
    use std::os::fd::AsRawFd as _;
    let folder = rustix::fs::readlink(format!("/proc/self/fd/{}", parent.as_raw_fd()), Vec::new())?;
    Ok(Path::new(OsStr::from_bytes(folder.to_bytes())).join(path_of(name)))
}

#[cfg(test)]
pub(crate) mod tests;
