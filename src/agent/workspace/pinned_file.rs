//! A file or folder made by llts that a tool can reach, held open, and the checks that it must pass before the next task
//! gets it.
//!
//! No check relies on a name: the descriptor is that of the very file that was made, and every property that a tool can
//! change, except its content, is compared. Content is checked by [`super::reusable_dir`].
//!
//! Of all time stamps only that of the last change (`st_ctime`) is trusted: every change of content, mode, flags,
//! attributes or entries moves it, and no call can set it. Its clock may stand still for some milliseconds, so that two
//! changes get the same stamp. So a file that was found unchanged long after its last change is *settled*: as long as that
//! stamp stays, nothing else is compared.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;

use super::sys;
use base::Wall;
use proc::files::file_stamp;
use proc::files::file_stamp::FileTime;

/// Why a folder is not reused.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotReusable {
    /// A file or folder differs from its original.
    #[error("{name:?} {what}")]
    Changed {
        /// Its path.
        name: CString,
        /// The difference, as a verb phrase.
        what: &'static str,
    },
    /// The tool has left more entries than are removed here.
    #[error("it contains too many entries")]
    TooMuch,
    /// A file cannot be inspected or restored.
    #[error(transparent)]
    System(#[from] Errno),
}

/// A file or folder, open.
#[derive(Debug)]
pub(super) struct PinnedFile {
    descriptor: OwnedFd,
    made: Option<Facts>,
    /// The time of its last change, if it is settled.
    settled: Option<FileTime>,
    /// The time of its last change when it was left for the next task.
    left: Option<FileTime>,
}

/// The result of a successful check.
pub(super) struct CheckedFile {
    pub(super) stat: Stat,
    /// Whether nothing of it has changed since the last successful check, including its content.
    pub(super) is_settled: bool,
}

/// The properties of a file apart from its content and its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Facts {
    device: u64,
    inode: u64,
    /// Includes the file type.
    mode: u32,
    owner: (u32, u32),
    links: u64,
    /// The flags that `chattr` sets, such as immutable.
    flags: Option<u32>,
}

impl Facts {
    fn new(stat: &Stat, descriptor: BorrowedFd<'_>) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            mode: stat.st_mode,
            owner: (stat.st_uid, stat.st_gid),
            // The width differs between architectures.
            #[expect(clippy::useless_conversion, reason = "the width depends on the architecture")]
            links: u64::from(stat.st_nlink),
            // A file system without flags has none that a tool could set.
            flags: rustix::fs::ioctl_getflags(descriptor).ok().map(|flags| flags.bits()),
        }
    }
}

impl PinnedFile {
    /// Takes charge of a file or folder that was just made.
    pub(super) const fn new(descriptor: OwnedFd) -> Self {
        Self { descriptor, made: None, settled: None, left: None }
    }

    /// Records its properties for [`Self::check`]. Before this call, no check succeeds.
    ///
    /// # Errors
    /// When it already has extended attributes, those of an access control list or a security module: a later change of
    /// them could not be detected.
    pub(super) fn note(&mut self) -> Result<Stat, NotReusable> {
        let stat = rustix::fs::fstat(&self.descriptor)?;
        self.has_no_attributes().then_some(()).ok_or(Errno::OPNOTSUPP)?;
        self.made = Some(Facts::new(&stat, self.descriptor.as_fd()));
        Ok(stat)
    }

    /// Checks that `path` leads to this file, unchanged. The file settles if it was not changed since `settled_before`;
    /// without that argument nothing settles.
    pub(super) fn check(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &CStr,
        settled_before: Option<Wall>,
    ) -> Result<CheckedFile, NotReusable> {
        let changed = |what| NotReusable::Changed { name: path.to_owned(), what };
        let stat = match rustix::fs::statat(folder, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::NOTDIR) => return Err(changed("no longer exists")),
            Err(error) => return Err(error.into()),
        };
        self.left = Some(changed_at(&stat));
        if self.is_settled(&stat) {
            return Ok(CheckedFile { stat, is_settled: true });
        }
        if Some(Facts::new(&stat, self.descriptor.as_fd())) != self.made {
            return Err(changed("was changed or replaced"));
        }
        if !self.has_no_attributes() {
            return Err(changed("was given extended attributes"));
        }
        // If its content turns out to be wrong, the file is not used again, so the mark does no harm.
        self.settled = settled_before.filter(|before| is_before(&stat, *before)).map(|_| changed_at(&stat));
        Ok(CheckedFile { stat, is_settled: false })
    }

    /// As [`Self::check`], for a file, which no other process may have open: a run can pass its descriptors to any process.
    pub(super) fn check_file(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &CStr,
        settled_before: Option<Wall>,
    ) -> Result<CheckedFile, NotReusable> {
        if !sys::is_open_here_only(self.descriptor.as_fd())? {
            return Err(NotReusable::Changed { name: path.to_owned(), what: "is open in another process" });
        }
        self.check(folder, path, settled_before)
    }

    /// Whether it has settled and is unchanged since. Cheaper than [`Self::check`] when it has not settled.
    pub(super) fn is_untouched(&mut self, folder: BorrowedFd<'_>, path: &CStr) -> bool {
        let untouched = self.is_still_settled(folder, path);
        if untouched {
            self.left = self.settled;
        }
        untouched
    }

    /// The same during a run: nothing is recorded.
    pub(super) fn is_still_settled(&self, folder: BorrowedFd<'_>, path: &CStr) -> bool {
        self.settled.is_some()
            && rustix::fs::statat(folder, path, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| self.is_settled(&stat))
    }

    /// Records a change that llts made to it after [`Self::check`].
    pub(super) fn changed_by_us(&mut self) -> Result<(), Errno> {
        self.left = Some(changed_at(&rustix::fs::fstat(&self.descriptor)?));
        Ok(())
    }

    /// Whether `path` leads to this file, unchanged since the last check. A task of another tool, or of another agent, can
    /// reach it meanwhile.
    pub(super) fn is_as_left(&self, folder: BorrowedFd<'_>, path: &CStr) -> bool {
        rustix::fs::statat(folder, path, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| self.left == Some(changed_at(&stat)) && self.is_this(&stat))
    }

    #[cfg(test)]
    pub(super) const fn has_settled(&self) -> bool {
        self.settled.is_some()
    }

    fn is_settled(&self, stat: &Stat) -> bool {
        self.settled == Some(changed_at(stat)) && self.is_this(stat)
    }

    fn is_this(&self, stat: &Stat) -> bool {
        self.made.is_some_and(|made| (made.device, made.inode) == (stat.st_dev, stat.st_ino))
    }

    /// Compares the present content with the original content.
    pub(super) fn check_content(&self, path: &CStr, bytes: &[u8]) -> Result<(), NotReusable> {
        let mut buffer = vec![0; bytes.len()];
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pread(&self.descriptor, rest, filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if buffer == bytes && filled == bytes.len() {
            return Ok(());
        }
        Err(NotReusable::Changed { name: path.to_owned(), what: "has different content" })
    }

    fn has_no_attributes(&self) -> bool {
        matches!(rustix::fs::flistxattr_query(&self.descriptor), Ok(0) | Err(Errno::OPNOTSUPP))
    }
}

impl AsFd for PinnedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn changed_at(stat: &Stat) -> FileTime {
    #[expect(clippy::unnecessary_cast, reason = "the width depends on the architecture")]
    (stat.st_ctime as i64, stat.st_ctime_nsec as i64)
}

fn is_before(stat: &Stat, moment: Wall) -> bool {
    file_stamp::wall(changed_at(stat)) < moment
}
