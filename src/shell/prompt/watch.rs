//! Reports at once that a file has come to `pending/`: closed after a write, or moved there. A file that is still being
//! written is not reported. If the system has no watches left, the TIMER finds new files.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

use crate::engine::master::FileName;

/// Events after which no writer is known.
const ENDS_OF_WRITING: AddWatchFlags = AddWatchFlags::IN_CLOSE_WRITE
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_DELETE);

/// An event in the folder.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// This file has come, or has new content.
    File(FileName),
    /// Too many events, or the folder itself has gone: scan everything.
    Everything,
}

#[derive(Debug)]
pub(super) struct Watch {
    inotify: Inotify,
    watched: Option<WatchDescriptor>,
    /// Files that were written to and not closed since.
    open: BTreeSet<FileName>,
}

impl Watch {
    pub(super) fn open() -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        Ok(Self { inotify, watched: None, open: BTreeSet::new() })
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.inotify.as_fd().as_raw_fd()
    }

    /// Watches the folder that has this path at present; following the same folder again has no effect.
    pub(super) fn follow(&mut self, folder: &Path) -> io::Result<()> {
        let flags = AddWatchFlags::IN_MODIFY | ENDS_OF_WRITING | AddWatchFlags::IN_ONLYDIR;
        let watched = self.inotify.add_watch(folder, flags)?;
        if let Some(old) = self.watched.replace(watched).filter(|old| *old != watched) {
            // The folder has gone or moved. If it has gone, so has its watch.
            let _ = self.inotify.rm_watch(old);
            self.open.clear();
        }
        Ok(())
    }

    /// Whether a process of this machine has this file open and has written to it.
    pub(super) fn is_open(&self, file: &FileName) -> bool {
        self.open.contains(file)
    }

    /// Some of the changes since the last call; `None` when there are no more.
    pub(super) fn read(&mut self) -> Option<Vec<Change>> {
        let events = match self.inotify.read_events() {
            Ok(events) => events,
            Err(Errno::EINTR) => return Some(Vec::new()),
            Err(Errno::EAGAIN) => return None,
            Err(error) => {
                log::error!("the watch of pending/ has failed: {error}");
                return None;
            }
        };
        Some(events.into_iter().filter_map(|event| self.change(event)).collect())
    }

    fn change(&mut self, event: InotifyEvent) -> Option<Change> {
        let is_of_folder = Some(event.wd) == self.watched;
        let is_gone = event.mask.contains(AddWatchFlags::IN_IGNORED) && is_of_folder;
        if is_gone || event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            self.open.clear();
            return Some(Change::Everything);
        }
        let file = event.name.map(FileName::new).filter(|file| is_of_folder && file.is_prompt())?;
        if !event.mask.intersects(ENDS_OF_WRITING) {
            self.open.insert(file);
            return None;
        }
        self.open.remove(&file);
        let has_come = AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVED_TO;
        event.mask.intersects(has_come).then_some(Change::File(file))
    }
}
