//! Tells at once that a file has come to `pending/`: closed after a write, or moved there. A file that is being written is not
//! told of. Where the system has no watches left, the TIMER finds new files.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

use crate::engine::master::FileName;

/// What has happened in the folder.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// This file has come, or has a new content.
    File(FileName),
    /// Too much, or the folder itself is gone: look at everything.
    Everything,
}

#[derive(Debug)]
pub(super) struct Watch {
    inotify: Inotify,
    watched: Option<WatchDescriptor>,
}

impl Watch {
    pub(super) fn open() -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        Ok(Self { inotify, watched: None })
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.inotify.as_fd().as_raw_fd()
    }

    /// Watches the folder that has this path at the moment; the same one twice is watched once.
    pub(super) fn follow(&mut self, folder: &Path) -> io::Result<()> {
        let flags = AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_ONLYDIR;
        let watched = self.inotify.add_watch(folder, flags)?;
        if let Some(old) = self.watched.replace(watched).filter(|old| *old != watched) {
            // The folder is gone, or somewhere else. If it is gone, so is its watch.
            let _ = self.inotify.rm_watch(old);
        }
        Ok(())
    }

    /// Some of the changes since the last call; `None` when there are no more.
    pub(super) fn read(&self) -> Option<Vec<Change>> {
        let events = match self.inotify.read_events() {
            Ok(events) => events,
            Err(Errno::EINTR) => return Some(Vec::new()),
            Err(Errno::EAGAIN) => return None,
            Err(error) => {
                log::error!("the watch of pending/ has failed: {error}");
                return None;
            }
        };
        let change = |event: nix::sys::inotify::InotifyEvent| {
            let is_gone = event.mask.contains(AddWatchFlags::IN_IGNORED) && Some(event.wd) == self.watched;
            if is_gone || event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                return Some(Change::Everything);
            }
            let of_interest = AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVED_TO;
            let name = event.name.filter(|_| event.mask.intersects(of_interest) && Some(event.wd) == self.watched);
            name.map(FileName::new).filter(FileName::is_prompt).map(Change::File)
        };
        Some(events.into_iter().filter_map(change).collect())
    }
}
