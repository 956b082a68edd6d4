//! Reports new files of a folder at once: those closed after a write, and those moved there. A file that is still being
//! written is not reported. If the system has no watches left, the caller's scan finds new files.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, RawFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

/// Events after which a file has no known writer.
const ENDS_OF_WRITING: AddWatchFlags = AddWatchFlags::IN_CLOSE_WRITE
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_DELETE);

/// An event in the folder.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    /// This file is new or has new content.
    File(OsString),
    /// There were too many events, or the folder itself is gone: scan everything.
    Everything,
}

/// A folder whose changes are reported.
#[derive(Debug)]
pub struct Watch {
    inotify: Inotify,
    watched: Option<WatchDescriptor>,
    /// The watch of the parent folder.
    around: Option<WatchDescriptor>,
    /// Further events to report.
    further: AddWatchFlags,
    /// Whether a file of this name is of interest.
    is_wanted: fn(&OsStr) -> bool,
    /// Files that were written to and have not been closed since.
    open: BTreeSet<OsString>,
}

impl Watch {
    /// A watch for files with names of this kind.
    pub fn open(is_wanted: fn(&OsStr) -> bool) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        let (watched, around, further) = (None, None, AddWatchFlags::empty());
        Ok(Self { inotify, watched, around, further, is_wanted, open: BTreeSet::new() })
    }

    /// Also reports each entry as soon as it is created, because links, folders and pipes are never closed after a
    /// write, and also when the folder itself moves. A created file counts as open until it is closed.
    pub fn with_made(self) -> Self {
        Self { further: AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVE_SELF, ..self }
    }

    /// Readable when something has changed.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    /// The descriptor as a number.
    pub fn raw_fd(&self) -> RawFd {
        self.inotify.as_fd().as_raw_fd()
    }

    /// Watches the folder currently at this path. Following the same folder again has no effect.
    pub fn follow(&mut self, folder: &Path) -> io::Result<()> {
        let flags = AddWatchFlags::IN_MODIFY | ENDS_OF_WRITING | AddWatchFlags::IN_ONLYDIR | self.further;
        let watched = self.inotify.add_watch(folder, flags)?;
        if let Some(old) = self.watched.replace(watched).filter(|old| *old != watched) {
            // The folder is gone or has moved. If it is gone, so is its watch.
            let _ = self.inotify.rm_watch(old);
            self.open.clear();
        }
        Ok(())
    }

    /// Watches whether the parent folder, currently at this path, moves or is removed.
    pub fn follow_around(&mut self, folder: &Path) -> io::Result<()> {
        let flags = AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_ONLYDIR;
        let around = self.inotify.add_watch(folder, flags)?;
        if let Some(old) = self.around.replace(around).filter(|old| *old != around) {
            let _ = self.inotify.rm_watch(old);
        }
        Ok(())
    }

    /// Whether a process of this machine has this file open and has written to it.
    pub fn is_open(&self, file: &OsStr) -> bool {
        self.open.contains(file)
    }

    /// Some of the changes since the last call; `None` when there are no more.
    pub fn read(&mut self) -> Option<Vec<Change>> {
        let events = match self.inotify.read_events() {
            Ok(events) => events,
            Err(Errno::EINTR) => return Some(Vec::new()),
            Err(Errno::EAGAIN) => return None,
            Err(error) => {
                log::error!("the watch of a folder has failed: {error}");
                return None;
            }
        };
        Some(events.into_iter().filter_map(|event| self.change(event)).collect())
    }

    fn change(&mut self, event: InotifyEvent) -> Option<Change> {
        let is_of_folder = Some(event.wd) == self.watched;
        let has_left = AddWatchFlags::IN_IGNORED | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_DELETE_SELF;
        let is_gone = event.mask.intersects(has_left) && (is_of_folder || Some(event.wd) == self.around);
        if is_gone || event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            self.open.clear();
            return Some(Change::Everything);
        }
        let file = event.name.filter(|file| is_of_folder && (self.is_wanted)(file))?;
        if !event.mask.intersects(ENDS_OF_WRITING) {
            self.open.insert(file.clone());
            return event.mask.contains(AddWatchFlags::IN_CREATE).then_some(Change::File(file));
        }
        self.open.remove(&file);
        let has_come = AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVED_TO;
        event.mask.intersects(has_come).then_some(Change::File(file))
    }
}
