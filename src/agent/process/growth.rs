//! Reports that an output of the present run has grown, while a reader waits for that. Without one, nothing is watched and
//! no descriptor is taken: a user may have 128 instances of inotify for all programs together.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

use base::OutputId;

/// The watched outputs, at most one watch for each.
#[derive(Debug, Default)]
pub(super) struct Growth {
    inotify: Option<Inotify>,
    watched: Vec<(WatchDescriptor, OutputId)>,
}

impl Growth {
    /// Reports the next write to an open file.
    ///
    /// # Errors
    /// When the user has no watches left.
    pub(super) fn watch_file(&mut self, output: OutputId, file: BorrowedFd<'_>) -> io::Result<()> {
        self.watch(output, file, AddWatchFlags::IN_MODIFY)
    }

    /// Reports the next file that appears in a folder.
    ///
    /// # Errors
    /// When the user has no watches left.
    pub(super) fn watch_folder(&mut self, output: OutputId, folder: BorrowedFd<'_>) -> io::Result<()> {
        self.watch(output, folder, AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO)
    }

    fn watch(&mut self, output: OutputId, what: BorrowedFd<'_>, events: AddWatchFlags) -> io::Result<()> {
        if self.inotify.is_none() {
            self.inotify = Some(Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?);
        }
        let Some(inotify) = &self.inotify else { return Ok(()) };
        // The link leads to the open file, even if its name is gone.
        let path = format!("/proc/self/fd/{}", what.as_raw_fd());
        let descriptor = inotify.add_watch(path.as_str(), events | AddWatchFlags::IN_ONESHOT)?;
        self.watched.retain(|(_, other)| *other != output);
        self.watched.push((descriptor, output));
        Ok(())
    }

    /// The outputs that have grown, which ends their watches.
    pub(super) fn poll(&mut self) -> Vec<OutputId> {
        let mut grown = Vec::new();
        while let Some(Ok(events)) = self.inotify.as_ref().map(Inotify::read_events) {
            // The end of a watch is an event, too. A lost event may have been of any output.
            let is_overflow = events.iter().any(|event| event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW));
            let is_growth = |event: &InotifyEvent, descriptor| {
                event.wd == descriptor && !event.mask.contains(AddWatchFlags::IN_IGNORED)
            };
            self.watched.retain(|(descriptor, output)| {
                let has_grown = is_overflow || events.iter().any(|event| is_growth(event, *descriptor));
                if has_grown {
                    grown.push(*output);
                }
                !has_grown
            });
        }
        grown
    }

    /// Ends all watches: the run has ended.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// Readable when [`Self::poll`] may have something.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(AsFd::as_fd)
    }
}
