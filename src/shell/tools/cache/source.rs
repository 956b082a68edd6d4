//! The archive in the tools folder: opened once, and recognised by what `stat` says of it.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use crate::shell::clock;
use crate::shell::tools::archive::{Packed, Watch};
use crate::shell::tools::{ArchiveError, Limits, ToolError};
use crate::types::ToolName;

/// Microseconds for which a file that was just written is not yet told apart by its times: clocks of file systems tick
/// in 10 ms here and in 2 s elsewhere, and a second write within one tick leaves no trace in them.
const SETTLE_MICROS: u64 = 2_000_000;

/// What changes when a file is replaced or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    pub(super) size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    fn new(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// What stands under this path; `None` also when nothing does.
    pub(super) fn of_path(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|metadata| Self::new(&metadata))
    }

    /// Whether a later write is sure to show.
    fn is_settled(&self, now_micros: u64) -> bool {
        let (seconds, _) = self.modified.max(self.changed);
        let until = u64::try_from(seconds).unwrap_or_default().saturating_mul(1_000_000).saturating_add(SETTLE_MICROS);
        // Seconds are rounded down, so one more.
        until.saturating_add(1_000_000) <= now_micros
    }
}

/// An open archive.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) identity: Identity,
    /// Whether the same identity later means the same content.
    pub(super) settled: bool,
}

impl Source {
    /// Opens `<tools_dir>/<tool>.tar.gz`. A symbolic link is followed as long as it stays in the tools folder, as in
    /// `convert.tar.gz -> convert-2.1.tar.gz`. Opening never blocks, whatever kind of file it is.
    pub(super) fn open(tools_dir: &Path, tool: &ToolName) -> Result<Self, ToolError> {
        let path = tools_dir.join(tool.archive_name());
        let file = match open_beneath(tools_dir, &tool.archive_name()) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::NOTDIR) => return Err(ToolError::Missing { archive: path }),
            Err(Errno::XDEV | Errno::LOOP) => return Err(ToolError::Outside { archive: path }),
            // Nobody listens on a socket or a FIFO of that name.
            Err(Errno::NXIO) => return Err(ToolError::Unpack { archive: path, cause: ArchiveError::NotFile }),
            Err(errno) => return Err(ToolError::io("open", &path, errno)),
        };
        let metadata = file.metadata().map_err(|cause| ToolError::io("stat", &path, cause))?;
        let identity = Identity::new(&metadata);
        let settled = identity.is_settled(clock::now().wall.micros());
        Ok(Self { path, file, identity, settled })
    }

    /// A number that stands for the content.
    pub(super) fn digest(&self, limits: &Limits, stop: &AtomicBool) -> Result<u64, ArchiveError> {
        Packed::new(&self.file, limits, Watch::start(limits.timeout, stop))?.digest_all()
    }

    /// Whether nobody wrote to the open file since. The change time is left out: it moves when the file loses its name
    /// to a newer version, and what is open here is a whole version all the same.
    pub(super) fn is_unchanged(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| {
            let now = Identity::new(&metadata);
            (now.size, now.modified) == (self.identity.size, self.identity.modified)
        })
    }
}

fn open_beneath(folder: &Path, name: &str) -> Result<File, Errno> {
    // How often the kernel may say that a rename went on beside it.
    const ATTEMPTS: usize = 8;
    let folder_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(rustix::fs::CWD, folder, folder_flags, Mode::empty())?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..ATTEMPTS {
        match openat2(&folder, name, flags, Mode::empty(), beneath) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // No openat2: an old kernel, or a container that forbids what it does not know. No link is followed then.
            Err(Errno::NOSYS | Errno::PERM) => {
                return openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty()).map(File::from);
            }
            opened => return opened.map(File::from),
        }
    }
    Err(Errno::AGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_settled_when_both_its_times_are_long_ago() {
        let identity = |modified, changed| Identity { device: 0, inode: 0, size: 0, modified, changed };
        let at = |identity: Identity, seconds: u64| identity.is_settled(seconds * 1_000_000);
        assert!(at(identity((10, 0), (10, 999_999_999)), 13));
        assert!(!at(identity((10, 0), (10, 0)), 12));
        // A time in the past can be set with `touch`; the change time cannot.
        assert!(!at(identity((0, 0), (10, 0)), 12));
        // A server whose clock is ahead.
        assert!(!at(identity((100, 0), (10, 0)), 50));
    }
}
