//! A file or folder of ours that a tool can reach, held open, and what it must look like to be given to the next task.
//!
//! Nothing rests on time stamps alone, nor on what a name leads to: the descriptor is that of the very file that we made, and
//! everything that a tool can change on it, but for its content, is looked at. Content is the concern of [`super::nest`].

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Stat};
use rustix::io::Errno;

use super::sys;

/// Why a folder is not used again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Soiled {
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
pub(super) struct Held {
    descriptor: OwnedFd,
    made: Option<Facts>,
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

impl Held {
    /// Takes charge of something that was just made.
    pub(super) const fn new(descriptor: OwnedFd) -> Self {
        Self { descriptor, made: None }
    }

    /// Notes how it looks, so that [`Self::check`] can tell later. Until then, nothing passes.
    ///
    /// # Errors
    /// When it has extended attributes already, those of an access control list or a security module: who has changed them
    /// could not be told.
    pub(super) fn note(&mut self) -> Result<Stat, Soiled> {
        let stat = rustix::fs::fstat(&self.descriptor)?;
        self.has_no_attributes().then_some(()).ok_or(Errno::OPNOTSUPP)?;
        self.made = Some(Facts::new(&stat, self.descriptor.as_fd()));
        Ok(stat)
    }

    /// Looks at what `path` leads to; it must be this, as it was made. Returns what is said of it.
    pub(super) fn check(&self, folder: BorrowedFd<'_>, path: &CStr) -> Result<Stat, Soiled> {
        let changed = |what| Soiled::Changed { name: path.to_owned(), what };
        let stat = match rustix::fs::statat(folder, path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::NOTDIR) => return Err(changed("is gone")),
            Err(error) => return Err(error.into()),
        };
        if Some(Facts::new(&stat, self.descriptor.as_fd())) != self.made {
            return Err(changed("was changed or replaced"));
        }
        if !self.has_no_attributes() {
            return Err(changed("was given extended attributes"));
        }
        Ok(stat)
    }

    /// The same for a file, which must not be open anywhere else either: a run hands its descriptors on to whom it likes.
    pub(super) fn check_file(&self, folder: BorrowedFd<'_>, path: &CStr) -> Result<Stat, Soiled> {
        if !sys::is_open_here_only(self.descriptor.as_fd())? {
            return Err(Soiled::Changed { name: path.to_owned(), what: "is open in another process" });
        }
        self.check(folder, path)
    }

    /// Compares the present content with what was there at first.
    pub(super) fn check_content(&self, path: &CStr, bytes: &[u8]) -> Result<(), Soiled> {
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
        Err(Soiled::Changed { name: path.to_owned(), what: "has another content" })
    }

    fn has_no_attributes(&self) -> bool {
        matches!(rustix::fs::flistxattr_query(&self.descriptor), Ok(0) | Err(Errno::OPNOTSUPP))
    }
}

impl AsFd for Held {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
