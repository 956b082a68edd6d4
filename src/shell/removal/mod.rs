//! Removing folders in which tools have run. There is no other remover in this program: what a tool has mounted somewhere in
//! its folder is other people's data, and the removers of the standard library go into it.
//!
//! A mount is never crossed, at any depth, whatever is mounted and on whichever device. What holds one stays, is named in
//! the log, and is removed when it is unmounted: by us, if a tool has mounted it and the system lets us.

mod mounts;
mod tree;

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::shell::trust::quoted;

pub(in crate::shell) use mounts::{detach_at_or_below, is_mount_at_or_below};
pub(in crate::shell) use tree::{Budget, Progress, make_accessible, open_folder, open_on_mount, path_of, remove_tree};

/// Why something, or a part of it, is still there.
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

/// Removes a folder and all that is in it, or a file. That there is none is no error.
///
/// # Errors
/// [`RemovalError`], when something of it stays: what is mounted in it, what is immutable, or what belongs to another user.
pub fn remove(path: &Path) -> Result<(), RemovalError> {
    remove_by(path, remove_tree)
}

/// The same for a folder in which only tools can have mounted anything: their mounts are unmounted, if the system lets us.
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

/// Unmounts what a tool has mounted at a path of ours or below it; true if something of it is gone.
pub(in crate::shell) fn unmount(path: &Path) -> bool {
    split(path).is_ok_and(|(parent, name)| detach_at_or_below(parent.as_fd(), &name))
}

/// Opens a folder of ours, after unmounting what a tool may have mounted there.
///
/// # Errors
/// When it is not there or no folder, or what is mounted there stays.
pub(in crate::shell) fn open_uncovered(path: &Path) -> io::Result<OwnedFd> {
    let (parent, name) = split(path)?;
    uncovered(parent.as_fd(), &name).map_err(|error| explained(error, path))
}

/// The same for the name of something in `parent`.
pub(in crate::shell) fn uncovered(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    match open_on_mount(parent, name) {
        Err(Errno::XDEV) if detach_at_or_below(parent, name) => open_on_mount(parent, name),
        opened => opened,
    }
}

/// Why a folder of ours cannot be opened, and what mends it where something is mounted there.
pub(in crate::shell) fn explained(error: Errno, path: &Path) -> io::Error {
    match error {
        Errno::XDEV => {
            let sentence = format!("something is mounted there; say `umount {}`", quoted(path));
            io::Error::new(io::ErrorKind::CrossesDevices, sentence)
        }
        other => other.into(),
    }
}

/// The folder that holds something, open, and its name there.
fn split(path: &Path) -> rustix::io::Result<(OwnedFd, CString)> {
    let folder = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let name = path.file_name().and_then(|name| CString::new(name.as_bytes()).ok()).ok_or(Errno::INVAL)?;
    let parent = openat(CWD, folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok((parent, name))
}

/// As [`remove_tree`], but what a tool has mounted in the way is unmounted, if the system lets us.
pub(in crate::shell) fn remove_tree_and_unmount(
    parent: BorrowedFd<'_>,
    name: &CStr,
    budget: &mut Budget<'_>,
) -> Progress {
    match remove_tree(parent, name, budget) {
        Progress::Stuck(_) if detach_at_or_below(parent, name) => remove_tree(parent, name, budget),
        progress => progress,
    }
}

/// Where a descriptor of a folder leads to at this moment.
fn path_below(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<PathBuf> {
    use std::os::fd::AsRawFd as _;
    let folder = rustix::fs::readlink(format!("/proc/self/fd/{}", parent.as_raw_fd()), Vec::new())?;
    Ok(Path::new(OsStr::from_bytes(folder.to_bytes())).join(path_of(name)))
}

#[cfg(test)]
pub(in crate::shell) mod tests;
