//! The file in which a run reports its progress: `progress` in the folder of its task. A file that does not exist is not watched,
//! because a user may have 128 instances of inotify for all programs together.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use crate::workspace::TaskDir;
use base::Progress;

/// The name of the file.
pub(super) const PROGRESS: &str = "progress";

/// Bytes that are read from its end: a line is shorter.
const END_BYTES: u64 = 4096;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct ProgressFile(Option<Inotify>);

impl ProgressFile {
    /// Reads the file, and watches for its next change.
    pub(super) fn look(&mut self, dir: &TaskDir) -> Option<Progress> {
        let mut file = dir.live_output(&[], PROGRESS).ok()?;
        // Before the read, because the file may grow after it.
        if let Err(error) = self.watch(&file) {
            log::debug!("the progress of a run cannot be watched: {error}; it is looked at with each heartbeat");
        }
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(END_BYTES))).ok()?;
        let mut end = Vec::new();
        file.take(END_BYTES).read_to_end(&mut end).ok()?;
        let end = String::from_utf8_lossy(&end);
        end.lines().rev().find(|line| !line.trim().is_empty()).and_then(Progress::parse)
    }

    /// A program may also put a new file in the place of the old one.
    fn watch(&mut self, file: &File) -> io::Result<()> {
        // A watch of the last file could wake the agent for nothing.
        let inotify = self.0.insert(Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?);
        let events = AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_ATTRIB | AddWatchFlags::IN_DELETE_SELF;
        let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        inotify.add_watch(path.as_str(), events | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_ONESHOT)?;
        Ok(())
    }

    /// Whether the file has changed, which ends the watch.
    pub(super) fn poll(&mut self) -> bool {
        let has_changed = self.0.as_ref().is_some_and(|inotify| inotify.read_events().is_ok_and(|all| !all.is_empty()));
        if has_changed {
            self.0 = None;
        }
        has_changed
    }

    /// The run has ended.
    pub(super) fn end(&mut self) {
        self.0 = None;
    }

    /// Readable when [`Self::poll`] may have something.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|inotify| inotify.as_fd())
    }
}
