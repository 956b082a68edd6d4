//! A folder made by llts that a tool can reach, held open, and its restoration: see [`super::pinned_file`].

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, RawDir, SeekFrom};
use rustix::io::Errno;

use super::pinned_file::{NotReusable, PinnedFile};
use base::Wall;
use proc::files::removal;
use proc::files::removal::Budget;

/// The maximum number of entries that are removed to restore a folder. If a tool leaves more, a fresh folder is cheaper.
pub(super) const EXTRA_ENTRIES_MAX: u32 = 64;

/// The maximum size of a file that is truncated or removed here; a larger one takes long, and the remover does it.
pub(super) const CUT_BYTES_MAX: i64 = 1 << 20;

/// A folder, open.
#[derive(Debug)]
pub(super) struct PinnedFolder {
    pub(super) pinned: PinnedFile,
    /// Some file systems never shrink a folder, and one that was large once stays slow.
    size: i64,
}

impl PinnedFolder {
    /// Records the properties of a folder that was just made.
    ///
    /// # Errors
    /// [`NotReusable`], when a later change of them could not be noticed.
    pub(super) fn new(descriptor: OwnedFd) -> Result<Self, NotReusable> {
        let mut pinned = PinnedFile::new(descriptor);
        let size = pinned.note()?.st_size;
        Ok(Self { pinned, size })
    }

    /// Removes foreign entries, and checks the folder itself, which is `path` of `parent`.
    ///
    /// # Errors
    /// [`NotReusable`], when it differs from what was made, or cannot be restored.
    pub(super) fn restore(
        &mut self,
        (parent, path): (BorrowedFd<'_>, &CStr),
        belongs: impl Fn(&CStr) -> bool,
        budget: &mut Budget<'_>,
        settled_before: Option<Wall>,
    ) -> Result<(), NotReusable> {
        if self.pinned.is_untouched(parent, path) {
            return Ok(());
        }
        for extra in extras(self.pinned.as_fd(), belongs)? {
            remove_extra(self.pinned.as_fd(), &extra, budget)?;
        }
        self.check((parent, path), settled_before)
    }

    /// Whether it has no entries.
    pub(super) fn is_empty(&self) -> bool {
        extras(self.pinned.as_fd(), |_| false).is_ok_and(|extras| extras.is_empty())
    }

    /// Checks the folder itself, which is `path` of `parent`.
    ///
    /// # Errors
    /// [`NotReusable`], when it differs from what was made.
    pub(super) fn check(
        &mut self,
        (parent, path): (BorrowedFd<'_>, &CStr),
        settled_before: Option<Wall>,
    ) -> Result<(), NotReusable> {
        let size = self.pinned.check(parent, path, settled_before)?.stat.st_size;
        if size == self.size { Ok(()) } else { Err(NotReusable::TooMuch) }
    }
}

/// The foreign names in a folder.
fn extras(folder: BorrowedFd<'_>, belongs: impl Fn(&CStr) -> bool) -> Result<Vec<CString>, NotReusable> {
    rustix::fs::seek(folder, SeekFrom::Start(0))?;
    let mut buffer = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(folder, &mut buffer);
    let mut extras = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." && !belongs(name) {
            if extras.len() >= EXTRA_ENTRIES_MAX as usize {
                return Err(NotReusable::TooMuch);
            }
            extras.push(name.to_owned());
        }
    }
    Ok(extras)
}

fn remove_extra(folder: BorrowedFd<'_>, name: &CStr, budget: &mut Budget<'_>) -> Result<(), NotReusable> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if stat.st_size > CUT_BYTES_MAX && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        return Err(NotReusable::TooMuch);
    }
    budget.take().ok_or(NotReusable::TooMuch)?;
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Err(Errno::ISDIR) if removal::remove_tree(folder, name, budget).is_gone() => Ok(()),
        Err(Errno::ISDIR) => Err(NotReusable::TooMuch),
        other => Ok(other?),
    }
}
