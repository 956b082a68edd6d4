//! The files of `pending/`: their changes as the kernel reports them, and whole scans.

use std::collections::BTreeSet;
use std::time::Duration;

use super::PromptMaster;
use crate::master::engine::FileName;
use base::Now;
use proc::files::disk_room::check_room;
use proc::files::file_stamp;
use proc::files::file_stamp::FileStamp;
use proc::files::folder_watch::{Change, Watch};

/// A file that has changed within this time is still being written, unless the watch has reported its close.
const SETTLED: Duration = Duration::from_secs(1);

/// The same for a file that its writer has open. A file truncated by its name also looks like that.
const ABANDONED: Duration = Duration::from_secs(60);

impl PromptMaster {
    pub(super) fn read_watch(&mut self, now: Now) {
        let changes = self.watch.as_mut().and_then(Watch::read);
        self.watch_unread = changes.is_some();
        for change in changes.unwrap_or_default() {
            match change {
                Change::File(file) => {
                    let file = FileName::new(file);
                    // If it has gone, it has been handed out already.
                    if let Some(metadata) = self.folders.look(&file) {
                        self.find(now, file, &metadata);
                    }
                }
                Change::Everything => self.scan(now),
            }
            self.settle(now);
        }
    }

    /// A file is in `pending/`.
    fn find(&mut self, now: Now, file: FileName, metadata: &std::fs::Metadata) {
        if self.folders.is_result(&file) {
            if self.results_seen.insert(file.clone()) {
                log::warn!("{file} in pending/ is a result and not a prompt; it is left there");
            }
            return;
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
        let present = match self.folders.waiting() {
            Ok(present) => present.into_iter().filter(|file| !self.folders.is_result(file)).collect::<BTreeSet<_>>(),
            Err(error) => return log::error!("cannot look through {}: {error}", self.folders.pending.display()),
        };
        self.rescan = None;
        // The folder may have been replaced.
        if let Some(Err(error)) = self.watch.as_mut().map(|watch| watch.follow(&self.folders.pending)) {
            log::warn!("cannot watch {}: {error}", self.folders.pending.display());
        }
        // At the start every file is accepted as it is, because it was put there before the master was started.
        let all = std::mem::take(&mut self.first_scan);
        for file in &present {
            if self.engine.is_known(file) {
                continue;
            }
            let Some(metadata) = self.folders.look(file) else { continue };
            let is_open = self.watch.as_ref().is_some_and(|watch| watch.is_open(file.as_os_str()));
            if all || is_settled(&metadata, now, if is_open { ABANDONED } else { SETTLED }) {
                self.find(now, file.clone(), &metadata);
            } else {
                self.rescan = Some(now.mono + SETTLED);
            }
        }
        self.engine.handle_scanned(now, &present);
    }
}

/// Whether the file has not changed for this long. A moment in the future comes from another clock, and proves nothing.
fn is_settled(metadata: &std::fs::Metadata, now: Now, after: Duration) -> bool {
    let changed = file_stamp::wall(FileStamp::from(metadata).changed);
    changed > now.wall || now.wall.since(changed) >= after
}
