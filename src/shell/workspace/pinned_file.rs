//! A file or folder of ours that a tool can reach, held open, and what it must look like to be given to the next task.
//!
//! Nothing rests on what a name leads to: the descriptor is that of the very file that we made, and everything that a tool can
//! change on it, but for its content, is looked at. Content is the concern of [`super::reusable_dir`].
//!
//! Of all time stamps only that of the last change (`st_ctime`) is believed, which every change of content, mode, flags,
//! attributes or entries moves and no call can set. The clock behind it may stand still for some milliseconds, so that two
//! changes look like one. So what was once found right when its last change was long ago is *settled*: as long as that stamp
//! stays, nothing else is looked at.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;

use super::sys;
use crate::shell::file_stamp::{self, FileTime};
use crate::types::Wall;

/// Why a folder is not used again.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotReusable {
    /// Something is not as we made it.
    #[error("{name:?} {what}")]
    Changed {
        /// What it is called.
        name: CString,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The tool has left more than is removed here.
    #[error("it holds too much")]
    TooMuch,
    /// It cannot be looked at, or not be put right.
    #[error(transparent)]
    System(#[from] Errno),
}

/// A file or folder, open.
#[derive(Debug)]
pub(super) struct PinnedFile {
    descriptor: OwnedFd,
    made: Option<Facts>,
    /// When it was last changed, if it is settled.
    settled: Option<FileTime>,
    /// When it was last changed as it was left for the next task.
    left: Option<FileTime>,
}

/// What was found right.
pub(super) struct Looked {
    pub(super) stat: Stat,
    /// Nothing of it has changed since it was found right the last time, not even its content.
    pub(super) is_settled: bool,
}

/// What is said of a file apart from its content and its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Facts {
    device: u64,
    inode: u64,
    /// Its kind too.
    mode: u32,
    owner: (u32, u32),
    links: u64,
    /// What `chattr` sets, such as immutable.
    flags: Option<u32>,
}

impl Facts {
    fn new(stat: &Stat, descriptor: BorrowedFd<'_>) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            mode: stat.st_mode,
            owner: (stat.st_uid, stat.st_gid),
            // Its width differs from one architecture to the other.
            #[expect(clippy::useless_conversion, reason = "the width depends on the architecture")]
            links: u64::from(stat.st_nlink),
            // A file system without them has none that a tool could set.
            flags: rustix::fs::ioctl_getflags(descriptor).ok().map(|flags| flags.bits()),
        }
    }
}

impl PinnedFile {
    /// Takes charge of something that was just made.
    pub(super) const fn new(descriptor: OwnedFd) -> Self {
        Self { descriptor, made: None, settled: None, left: None }
    }

    /// Notes how it looks, so that [`Self::check`] can tell later. Until then, nothing passes.
    ///
    /// # Errors
    /// When it has extended attributes already, those of an access control list or a security module: who has changed them
    /// could not be told.
    pub(super) fn note(&mut self) -> Result<Stat, NotReusable> {
        let stat = rustix::fs::fstat(&self.descriptor)?;
        self.has_no_attributes().then_some(()).ok_or(Errno::OPNOTSUPP)?;
        self.made = Some(Facts::new(&stat, self.descriptor.as_fd()));
        Ok(stat)
    }

    /// Looks at what `path` leads to; it must be this, as it was made. It settles if it was not changed since `settled_before`;
    /// nothing does without that.
    pub(super) fn check(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &CStr,
        settled_before: Option<Wall>,
    ) -> Result<Looked, NotReusable> {
        let changed = |what| NotReusable::Changed { name: path.to_owned(), what };
        let stat = match rustix::fs::statat(folder, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::NOTDIR) => return Err(changed("is gone")),
            Err(error) => return Err(error.into()),
        };
        self.left = Some(changed_at(&stat));
        if self.is_settled(&stat) {
            return Ok(Looked { stat, is_settled: true });
        }
        if Some(Facts::new(&stat, self.descriptor.as_fd())) != self.made {
            return Err(changed("was changed or replaced"));
        }
        if !self.has_no_attributes() {
            return Err(changed("was given extended attributes"));
        }
        // Should its content turn out to be wrong, nobody asks for it any more.
        self.settled = settled_before.filter(|before| is_before(&stat, *before)).map(|_| changed_at(&stat));
        Ok(Looked { stat, is_settled: false })
    }

    /// The same for a file, which must not be open anywhere else either: a run hands its descriptors on to whom it likes.
    pub(super) fn check_file(
        &mut self,
        folder: BorrowedFd<'_>,
        path: &CStr,
        settled_before: Option<Wall>,
    ) -> Result<Looked, NotReusable> {
        if !sys::is_open_here_only(self.descriptor.as_fd())? {
            return Err(NotReusable::Changed { name: path.to_owned(), what: "is open in another process" });
        }
        self.check(folder, path, settled_before)
    }

    /// Whether it has settled, and nothing of it has changed since. Cheaper than [`Self::check`] when it has not settled.
    pub(super) fn is_untouched(&mut self, folder: BorrowedFd<'_>, path: &CStr) -> bool {
        let untouched = self.settled.is_some()
            && rustix::fs::statat(folder, path, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| self.is_settled(&stat));
        if untouched {
            self.left = self.settled;
        }
        untouched
    }

    /// Notes a change that was made to it after [`Self::check`].
    pub(super) fn changed_by_us(&mut self) -> Result<(), Errno> {
        self.left = Some(changed_at(&rustix::fs::fstat(&self.descriptor)?));
        Ok(())
    }

    /// Whether `path` leads to this, and nothing of it has changed since it was looked at. A task of another tool, or of another
    /// agent, can reach it meanwhile.
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

    /// Compares the present content with what was there at first.
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
        Err(NotReusable::Changed { name: path.to_owned(), what: "has another content" })
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
