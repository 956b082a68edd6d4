//! The conditions for handing out the next prompt: no other one is being moved to `working/`, prompts are not paused, and the disk has
//! room for answers.

use super::effect::Connection;
use super::file::FileName;
use super::files::Waiting;

/// A file that is being moved to `working/`.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) connection: Connection,
    pub(super) file: FileName,
    pub(super) waiting: Waiting,
}

#[derive(Debug, Default)]
pub(super) struct Dispatch {
    /// The claim under way. Only one, so that the size of its prompt is known before the next one.
    claim: Option<Claim>,
    /// Reason of a pause.
    pause: Option<String>,
    /// Error of the disk that cannot store answers.
    disk_full: Option<String>,
    /// Number of prompts handed out since the start or the last resume.
    starts: u64,
}

impl Dispatch {
    pub(super) const fn is_open(&self) -> bool {
        self.claim.is_none() && self.pause.is_none() && self.disk_full.is_none()
    }

    /// Why no prompt is handed out, if none is.
    pub(super) fn obstacle(&self) -> Option<&String> {
        self.pause.as_ref().or(self.disk_full.as_ref())
    }

    pub(super) fn begin_claim(&mut self, claim: Claim) {
        self.claim = Some(claim);
    }

    pub(super) const fn end_claim(&mut self) -> Option<Claim> {
        self.claim.take()
    }

    pub(super) const fn claim(&self) -> Option<&Claim> {
        self.claim.as_ref()
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.pause.is_some()
    }

    pub(super) fn pause(&mut self, reason: String) {
        self.pause = Some(reason);
    }

    pub(super) fn resume(&mut self) {
        (self.pause, self.starts) = (None, 0);
    }

    /// The disk has no room for answers. False if that was already known.
    pub(super) fn close_for_disk(&mut self, reason: String) -> bool {
        self.disk_full.replace(reason).is_none()
    }

    pub(super) fn reopen_for_disk(&mut self) {
        self.disk_full = None;
    }

    pub(super) const fn is_disk_full(&self) -> bool {
        self.disk_full.is_some()
    }

    /// Counts a prompt that is handed out. After the last one of `max` the master pauses; returns the reason.
    pub(super) fn count_start(&mut self, max: Option<u64>) -> Option<&str> {
        self.starts += 1;
        if max != Some(self.starts) {
            return None;
        }
        let starts = self.starts;
        let reason =
            format!("{starts} prompts have been started (--max-starts); llts prompt resume allows as many again");
        Some(self.pause.insert(reason))
    }
}
