//! The files of `pending/`: their changes as the kernel reports them, and whole scans.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io;
use std::path::Path;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Interest, Poll};

use super::{PromptMaster, WATCH};
use crate::master::engine::FileName;
use base::{Mono, Now};
use proc::files::disk_room::check_room;
use proc::files::file_stamp;
use proc::files::file_stamp::FileStamp;
use proc::files::folder_watch::{Change, Watch};

/// A file that has changed within this time is still being written, unless the watch has reported its close.
const SETTLED: Duration = Duration::from_secs(1);

/// This time for a file that its writer has open. A file that is truncated by its name looks open, too.
const ABANDONED: Duration = Duration::from_secs(60);

/// The watch of `pending/`, and the state of the scans that find what it does not report.
pub(super) struct PendingWatch {
    /// `None` if the kernel has refused it.
    watch: Option<Watch>,
    /// The watch may have more changes.
    is_unread: bool,
    is_first_scan: bool,
    /// When files that are being written may be complete.
    rescan: Option<Mono>,
    /// Results in `pending/` that are named in the log.
    results: BTreeSet<FileName>,
}

impl PendingWatch {
    /// Without a watch, files are found by scans only.
    pub(super) fn open(poll: &Poll, pending: &Path) -> Self {
        let open = || {
            let mut watch = Watch::open(|name| FileName::new(name.to_owned()).is_prompt())?;
            watch.follow(pending)?;
            poll.registry().register(&mut SourceFd(&watch.raw_fd()), WATCH, Interest::READABLE)?;
            Ok::<_, io::Error>(watch)
        };
        let watch = open();
        if let Err(error) = &watch {
            log::warn!("cannot watch {}: {error}; new files are found with each TIMER", pending.display());
        }
        Self { watch: watch.ok(), is_unread: true, is_first_scan: true, rescan: None, results: BTreeSet::new() }
    }

    pub(super) const fn note_readable(&mut self) {
        self.is_unread = true;
    }

    pub(super) const fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// When the next scan is due because of files that are being written.
    pub(super) const fn rescan(&self) -> Option<Mono> {
        self.rescan
    }

    fn read(&mut self) -> Vec<Change> {
        let changes = self.watch.as_mut().and_then(Watch::read);
        self.is_unread = changes.is_some();
        changes.unwrap_or_default()
    }

    fn begin_scan(&mut self, pending: &Path) {
        self.rescan = None;
        // The folder may have been replaced.
        if let Some(Err(error)) = self.watch.as_mut().map(|watch| watch.follow(pending)) {
            log::warn!("cannot watch {}: {error}", pending.display());
        }
    }

    /// Whether a scanned file is complete; otherwise another scan follows. The first scan accepts every file as it is, because the file
    /// was there before the master was started.
    fn is_complete(&mut self, file: &FileName, metadata: &Metadata, now: Now) -> bool {
        let is_open = self.watch.as_ref().is_some_and(|watch| watch.is_open(file.as_os_str()));
        let is_complete = self.is_first_scan || is_settled(metadata, now, if is_open { ABANDONED } else { SETTLED });
        if !is_complete {
            self.rescan = Some(now.mono + SETTLED);
        }
        is_complete
    }

    const fn end_scan(&mut self) {
        self.is_first_scan = false;
    }

    /// Logs once that a file is a result and not a prompt.
    fn report_result(&mut self, file: FileName) {
        if !self.results.contains(&file) {
            log::warn!("{file} in pending/ is a result and not a prompt; it is left there");
            self.results.insert(file);
        }
    }
}

impl PromptMaster {
    pub(super) fn read_watch(&mut self, now: Now) {
        for change in self.watch.read() {
            match change {
                Change::File(file) => {
                    let file = FileName::new(file);
                    // If it has gone, it has been handed out already.
                    if let Some(metadata) = self.folders.metadata(&file) {
                        self.find(now, file, &metadata);
                    }
                }
                Change::Everything => self.scan(now),
            }
            self.settle(now);
        }
    }

    /// A file is in `pending/`.
    fn find(&mut self, now: Now, file: FileName, metadata: &Metadata) {
        if self.folders.is_result(&file) {
            return self.watch.report_result(file);
        }
        if self.engine.has_failed(&file) && !self.folders.has_failed(&file) {
            self.engine.handle_retried(&file);
        }
        let front = self.folders.peek(&file, metadata);
        self.engine.handle_found(now, file, &front);
    }

    /// Scans `pending/` for files that the watch has not reported.
    pub(super) fn scan(&mut self, now: Now) {
        let room = check_room(&self.folders.tasks).map_err(|error| error.to_string());
        self.engine.handle_room(now, room);
        let made = self.folders.make_missing();
        // Before it is read, so that a file that comes meanwhile is reported.
        self.watch.begin_scan(&self.folders.pending);
        let present = match made.and_then(|()| self.folders.waiting()) {
            Ok(present) => present.into_iter().filter(|file| !self.folders.is_result(file)).collect::<BTreeSet<_>>(),
            Err(error) => return log::error!("cannot look through {}: {error}", self.folders.pending.display()),
        };
        for file in &present {
            if self.engine.is_known(file) {
                continue;
            }
            let Some(metadata) = self.folders.metadata(file) else { continue };
            if self.watch.is_complete(file, &metadata, now) {
                self.find(now, file.clone(), &metadata);
            }
        }
        self.watch.end_scan();
        self.engine.handle_scanned(now, &present);
    }
}

/// True if the file has not changed for this long. A moment in the future comes from another clock, and proves nothing.
fn is_settled(metadata: &Metadata, now: Now, after: Duration) -> bool {
    let changed = file_stamp::wall(FileStamp::from(metadata).changed);
    changed > now.wall || now.wall.since(changed) >= after
}
