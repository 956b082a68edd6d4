//! The `stat` data that distinguishes one content of a file from another without reading it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use crate::types::Wall;

/// After a change, another one within this time may leave the same times: clocks of file systems tick every 10 ms on some
/// and every 2 s on others, and a second write within one tick is invisible in all of them.
const SETTLING: Duration = Duration::from_secs(3);

/// Seconds and nanoseconds since 1970, by the clock of the file system.
pub(super) type FileTime = (i64, i64);

/// Data that changes when a file is written or replaced, or a name in a folder comes or goes. The time of the last status
/// change (`st_ctime`) cannot be set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp {
    /// Device and inode, which identify the file.
    pub(super) file: (u64, u64),
    /// Size in bytes.
    pub(super) size: u64,
    /// The time of the last write, `st_mtime`.
    pub(super) modified: FileTime,
    /// The time of the last change of the status, `st_ctime`.
    pub(super) changed: FileTime,
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
    /// Whether a later change is certain to give the file another stamp. A time in the future, from a server whose clock is
    /// ahead, proves nothing.
    pub(super) fn is_settled(&self, now: Wall) -> bool {
        wall(self.modified.max(self.changed)) + SETTLING <= now
    }
}

/// The moment of a file time; 1970 for any earlier one.
pub(super) fn wall((seconds, nanos): FileTime) -> Wall {
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
}
