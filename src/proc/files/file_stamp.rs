//! The `stat` data that shows whether a file has changed, without reading it.

use std::fs::Metadata;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use base::Wall;

/// Two changes within this time may leave the same times: the clocks of file systems tick every 10 ms to 2 s, and a
/// second write within one tick does not show.
const SETTLING: Duration = Duration::from_secs(3);

/// The same for a local file system that [`tells_changes`] with fractions of a second. It uses the kernel's clock,
/// which ticks at least every 10 ms.
const SETTLING_HERE: Duration = Duration::from_millis(100);

/// Seconds and nanoseconds since 1970, by the clock of the file system.
pub type FileTime = (i64, i64);

/// Data that changes when a file is written or replaced, or an entry of a folder is added or removed. The time of the
/// last status change (`st_ctime`) cannot be set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    /// Device and inode, which identify the file.
    pub(crate) file: (u64, u64),
    /// Size in bytes.
    pub size: u64,
    /// The time of the last write, `st_mtime`.
    pub modified: FileTime,
    /// The time of the last change of the status, `st_ctime`.
    pub changed: FileTime,
}

impl From<&Metadata> for FileStamp {
    fn from(metadata: &Metadata) -> Self {
        Self {
            file: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl FileStamp {
    /// Whether any later change is certain to give the file another stamp. A time in the future, from a server whose
    /// clock is ahead, proves nothing.
    pub fn is_settled(&self, now: Wall) -> bool {
        self.is_older_than(SETTLING, now)
    }

    /// As [`Self::is_settled`], but much sooner where the file system of the open file permits it. Until then, every
    /// use of the file reads it again.
    pub fn is_settled_in(&self, file: impl AsFd, now: Wall) -> bool {
        let has_fractions = self.modified.1 != 0 && self.changed.1 != 0;
        let is_exact = || has_fractions && tells_changes(file.as_fd()).unwrap_or(false);
        self.is_settled(now) || (self.is_older_than(SETTLING_HERE, now) && is_exact())
    }

    fn is_older_than(&self, time: Duration, now: Wall) -> bool {
        wall(self.modified.max(self.changed)) + time <= now
    }
}

/// Whether the file system is known to record the last change of every file in a way that no call can forge. Some
/// user-space file systems invent this time.
pub fn tells_changes(file: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    const KNOWN: [libc::c_long; 5] = [
        libc::EXT4_SUPER_MAGIC,
        libc::XFS_SUPER_MAGIC,
        libc::BTRFS_SUPER_MAGIC,
        libc::TMPFS_MAGIC,
        libc::OVERLAYFS_SUPER_MAGIC,
    ];
    Ok(KNOWN.contains(&rustix::fs::fstatfs(file)?.f_type))
}

/// The moment of a file time; 1970 for any earlier one.
pub fn wall((seconds, nanos): FileTime) -> Wall {
    let micros = u64::try_from(seconds).unwrap_or_default().saturating_mul(1_000_000);
    Wall::from_micros(micros.saturating_add(u64::try_from(nanos / 1000).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_settled_when_both_its_times_are_long_ago() {
        let is_settled = |modified, changed, now: u64| {
            FileStamp { file: (0, 0), size: 0, modified, changed }.is_settled(Wall::from_micros(now * 1_000_000))
        };
        assert!(is_settled((10, 0), (10, 0), 13));
        assert!(!is_settled((10, 0), (10, 999_999_999), 13));
        assert!(!is_settled((10, 0), (10, 0), 12));
        // A time in the past can be set with `touch`; the change time cannot.
        assert!(!is_settled((0, 0), (10, 0), 12));
        // A server whose clock is ahead.
        assert!(!is_settled((100, 0), (10, 0), 50));
        assert_eq!(wall((-1, 0)), Wall::from_micros(0));
    }

    #[test]
    fn a_file_of_this_machine_is_settled_after_a_tenth_of_a_second() {
        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(folder.path().join("x")).unwrap();
        let is_exact = tells_changes(file.as_fd()).unwrap();
        let stamp = |nanos| FileStamp { file: (0, 0), size: 0, modified: (10, nanos), changed: (10, nanos) };
        let is_settled =
            |nanos, after: u64| stamp(nanos).is_settled_in(&file, wall((10, nanos)) + Duration::from_millis(after));
        assert!(!is_settled(1000, 99), "the clock of the kernel may not have ticked");
        assert_eq!(is_settled(1000, 100), is_exact);
        assert!(!is_settled(0, 2999), "a file system that counts seconds");
        assert!(is_settled(0, 3000));
    }
}
