//! Removes a folder with untrusted contents, of any depth and with any modes and names, and never anything outside it.
//!
//! An inner folder is first moved up, directly below the top, and emptied there. So the depth of the tree costs no
//! stack, no descriptors and no long paths. A mount point is never entered, neither the top nor anything below it: each
//! folder is opened on the mount of its parent, and the kernel refuses to move or unlink a mount point.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{Errno, Result};

use super::mounts;

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The progress of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Everything is removed.
    Gone,
    /// More is left; continue later.
    OutOfBudget,
    /// The rest cannot be removed, for this reason. It may be immutable, owned by another user, or a mount point.
    Stuck(Errno),
}

impl Progress {
    /// Whether nothing of it is left.
    pub const fn is_gone(self) -> bool {
        matches!(self, Self::Gone)
    }
}

/// A flag that is never set.
static NEVER: AtomicBool = AtomicBool::new(false);

/// The allowance of a removal.
pub struct Budget<'a> {
    entries: u32,
    stop: Option<&'a AtomicBool>,
}

impl<'a> Budget<'a> {
    /// For this number of entries.
    pub const fn of(entries: u32) -> Self {
        Self { entries, stop: None }
    }

    /// Without a limit.
    pub const fn unlimited() -> Self {
        Self { entries: u32::MAX, stop: Some(&NEVER) }
    }

    /// Without a limit, until `stop` becomes true.
    pub const fn until(stop: &'a AtomicBool) -> Self {
        Self { entries: u32::MAX, stop: Some(stop) }
    }

    /// Spends one step; `None` if none is left.
    pub fn take(&mut self) -> Option<()> {
        if self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return None;
        }
        // An unlimited budget is renewed forever.
        self.entries = if self.stop.is_some() { u32::MAX } else { self.entries.checked_sub(1)? };
        Some(())
    }
}

/// Opens a folder for reading, without following a link.
pub fn open_folder(parent: BorrowedFd<'_>, name: &Path) -> Result<OwnedFd> {
    rustix::fs::openat(parent, name, OFlags::RDONLY | FOLDER, Mode::empty())
}

/// As [`open_folder`], but only if the folder is on the mount of `parent`.
///
/// # Errors
/// `EXDEV` when something is mounted there.
pub fn open_on_mount(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    open_on_mount_as(parent, name, OFlags::RDONLY)
}

pub(super) fn open_on_mount_as(parent: BorrowedFd<'_>, name: &CStr, access: OFlags) -> Result<OwnedFd> {
    let on_mount = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
    match openat2(parent, name, access | FOLDER, Mode::empty(), on_mount) {
        // There is no openat2 on an old kernel, or in a container that forbids unknown calls.
        Err(Errno::NOSYS | Errno::PERM) => open_and_compare(parent, name, access),
        opened => opened,
    }
}

/// For kernels without `openat2`. Comparing device numbers would not suffice: a bind mount may be on the same device.
pub(super) fn open_and_compare(parent: BorrowedFd<'_>, name: &CStr, access: OFlags) -> Result<OwnedFd> {
    let opened = rustix::fs::openat(parent, name, access | FOLDER, Mode::empty())?;
    let (around, inside) = (mounts::id_of(parent)?, mounts::id_of(opened.as_fd())?);
    if around == inside { Ok(opened) } else { Err(Errno::XDEV) }
}

/// A name as a path.
pub fn path_of(name: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(name.to_bytes()))
}

/// Removes the entry `name`, within the budget.
pub fn remove_tree(parent: BorrowedFd<'_>, name: &CStr, budget: &mut Budget<'_>) -> Progress {
    let top = match open_accessible(parent, name) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Progress::Gone,
        // It is not a folder.
        Err(Errno::NOTDIR | Errno::LOOP) => return progress(rustix::fs::unlinkat(parent, name, AtFlags::empty())),
        Err(error) => return Progress::Stuck(error),
    };
    let mut removal = Removal { top: top.as_fd(), budget, waiting: Vec::new(), done: 0, error: None };
    loop {
        let before = removal.done;
        if removal.empty_once().is_none() {
            return Progress::OutOfBudget;
        }
        match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
            // A file system may omit entries of a folder that changes while it is read, so repeat as long as that helps.
            Err(Errno::NOTEMPTY | Errno::EXIST) if removal.done > before => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) => return Progress::Stuck(removal.error.unwrap_or(Errno::NOTEMPTY)),
            other => return progress(other),
        }
    }
}

const fn progress(result: Result<()>) -> Progress {
    match result {
        Ok(()) | Err(Errno::NOENT) => Progress::Gone,
        Err(error) => Progress::Stuck(error),
    }
}

struct Removal<'a, 'b> {
    top: BorrowedFd<'a>,
    budget: &'a mut Budget<'b>,
    /// Folders that were moved up to the top and still have to be emptied.
    waiting: Vec<CString>,
    /// Number of entries that were removed, or moved up from further down, and cannot appear again.
    done: u64,
    /// The last reason why an entry stays.
    error: Option<Errno>,
}

impl Removal<'_, '_> {
    /// Goes through the top once; `None` when the budget is used up.
    fn empty_once(&mut self) -> Option<()> {
        self.empty_folder(self.top)?;
        while let Some(name) = self.waiting.pop() {
            match open_accessible(self.top, &name) {
                Ok(folder) => self.empty_folder(folder.as_fd())?,
                Err(error) => self.note(Err(error)),
            }
            self.budget.take()?;
            let removed = rustix::fs::unlinkat(self.top, &name, AtFlags::REMOVEDIR);
            self.note(removed);
        }
        Some(())
    }

    /// Removes the files of a folder and moves its folders to the top.
    fn empty_folder(&mut self, folder: BorrowedFd<'_>) -> Option<()> {
        let entries = match with_access(folder, || Dir::read_from(folder)) {
            Ok(entries) => entries,
            Err(error) => {
                self.note(Err(error));
                return Some(());
            }
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    self.note(Err(error));
                    break;
                }
            };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            self.budget.take()?;
            // The type is only a hint, and unknown on some file systems. unlink itself refuses a folder.
            let removed = match entry.file_type() {
                FileType::Directory => Err(Errno::ISDIR),
                _ => with_access(folder, || rustix::fs::unlinkat(folder, name, AtFlags::empty())),
            };
            match removed {
                Err(Errno::ISDIR) => self.move_up(folder, name),
                other => self.note(other),
            }
        }
        Some(())
    }

    fn move_up(&mut self, folder: BorrowedFd<'_>, name: &CStr) {
        match self.rename_to_top(folder, name) {
            Ok(target) => {
                self.waiting.push(target);
                // A move from the top to the top is no progress: a folder that cannot be emptied would be moved forever.
                self.done += u64::from(folder.as_raw_fd() != self.top.as_raw_fd());
            }
            Err(error) => self.note(Err(error)),
        }
    }

    fn rename_to_top(&self, folder: BorrowedFd<'_>, name: &CStr) -> Result<CString> {
        /// Names that no other removal of this process has used.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        /// Attempts with new names before this folder is given up: a tool could take names on purpose.
        const ATTEMPTS_MAX: u32 = 16;
        for _ in 0..ATTEMPTS_MAX {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let target = CString::new(format!(".moved-{}-{n}", std::process::id())).map_err(|_| Errno::INVAL)?;
            let rename = || rustix::fs::renameat(folder, name, self.top, &target);
            let moved = match with_access(folder, rename) {
                // A folder that its owner may not write to cannot be moved.
                Err(Errno::ACCESS) => make_accessible(folder, name).and_then(|()| rename()),
                other => other,
            };
            match moved {
                Ok(()) => return Ok(target),
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno::EXIST)
    }

    fn note(&mut self, result: Result<()>) {
        match result {
            Ok(()) => self.done += 1,
            // Another agent that swept the trash was faster. This does not count as progress, because a damaged file
            // system may list such a name forever.
            Err(Errno::NOENT) => {}
            Err(error) => self.error = Some(error),
        }
    }
}

/// Repeats the call with all rights on the folder if it fails for lack of rights.
fn with_access<T>(folder: BorrowedFd<'_>, call: impl Fn() -> Result<T>) -> Result<T> {
    match call() {
        Err(Errno::ACCESS) => rustix::fs::fchmod(folder, Mode::RWXU).and_then(|()| call()),
        other => other,
    }
}

/// Opens a folder. If necessary, gives its owner the rights to open and search it first.
fn open_accessible(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd> {
    let open = || open_on_mount(parent, name);
    match open() {
        Err(Errno::ACCESS) => make_accessible(parent, name).and_then(|()| open()),
        other => other,
    }
}

/// Gives the owner all rights on a folder that it may not open, through `/proc`, so that no link is followed.
pub fn make_accessible(parent: BorrowedFd<'_>, name: &CStr) -> Result<()> {
    let folder = open_on_mount_as(parent, name, OFlags::PATH)?;
    rustix::fs::chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), Mode::RWXU)
}
