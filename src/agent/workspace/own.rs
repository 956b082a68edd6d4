//! The agent's own folders: the trash, and the repair of changes that a tool may have made to any of them.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;
use rustix::path::Arg;

use super::{OWNER_ONLY, TrashRemainder};
use proc::files::removal;

/// Moves an entry to the trash under a unique name; `None` if it does not exist.
pub(super) fn move_to_trash(
    parent: BorrowedFd<'_>,
    name: &CStr,
    trash: BorrowedFd<'_>,
) -> rustix::io::Result<Option<TrashRemainder>> {
    /// Distinguishes the entries that one process moves to the trash; its pid distinguishes processes.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let target = format!("{}-{}-{n}", name.to_string_lossy(), std::process::id());
        let target = CString::new(target).map_err(|_| Errno::INVAL)?;
        match rustix::fs::renameat(parent, name, trash, &target) {
            Ok(()) => return Ok(Some(TrashRemainder::new(target))),
            Err(Errno::NOENT) => return Ok(None),
            // The name is left from an earlier process with the same pid.
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR | Errno::ISDIR) => {}
            // The folder itself is a mount point.
            Err(Errno::BUSY) if removal::detach_at_or_below(parent, name) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Makes a folder for the owner only, unless there is one.
pub(crate) fn make_folder(parent: impl AsFd, name: impl Arg) -> rustix::io::Result<()> {
    match rustix::fs::mkdirat(parent, name, OWNER_ONLY) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether a name leads to this folder.
pub(super) fn is_in_place(parent: BorrowedFd<'_>, name: &CStr, folder: BorrowedFd<'_>) -> bool {
    let named = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
    matches!((named, rustix::fs::fstat(folder)), (Ok(a), Ok(b)) if (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino))
}

/// Restores the mode of an agent's own folder, if its owner has lost a permission; true if the mode was changed.
pub(super) fn restore_mode(folder: BorrowedFd<'_>, mode: Mode, path: &Path) -> rustix::io::Result<bool> {
    let found = Mode::from_raw_mode(rustix::fs::fstat(folder)?.st_mode);
    if found.contains(OWNER_ONLY) {
        return Ok(false);
    }
    log::warn!("a tool has changed the mode of {} to {:03o}; it is {:03o} again", path.display(), found, mode);
    rustix::fs::fchmod(folder, mode).map(|()| true)
}
