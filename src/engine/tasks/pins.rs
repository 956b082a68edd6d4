//! The versions of tools that unfinished tasks have pinned, and the files that tasks name.

use std::collections::BTreeMap;

use crate::Controller;
use crate::archives::catalog::Catalog;
use base::{Now, Phase, TaskId, TaskRecord, ToolDigest, ToolName};

impl Controller {
    /// The version that a name stands for, or the pins of a tool, have changed.
    pub(crate) fn refresh_offer(&mut self, now: Now, tool: &ToolName) {
        self.queue.set_held(now, tool, self.archives.catalog.offers(tool));
    }

    pub(super) fn pin(&mut self, now: Now, tool: &ToolName, digest: ToolDigest) {
        if self.archives.catalog.pin(tool, digest) {
            self.refresh_offer(now, tool);
        }
    }

    pub(super) fn unpin(&mut self, now: Now, tool: &ToolName, digest: ToolDigest) {
        if self.archives.catalog.unpin(tool, digest) {
            self.refresh_offer(now, tool);
        }
    }

    /// Pins the versions of a graph.
    pub(crate) fn pin_all(&mut self, now: Now, pins: &BTreeMap<ToolName, ToolDigest>) {
        pins.iter().for_each(|(tool, digest)| self.pin(now, tool, *digest));
    }

    /// A graph with these pins has ended.
    pub(crate) fn unpin_all(&mut self, now: Now, pins: &BTreeMap<ToolName, ToolDigest>) {
        pins.iter().for_each(|(tool, digest)| self.unpin(now, tool, *digest));
    }

    /// Pins the present version for a task that was accepted when the controller held none.
    pub(crate) fn pin_late(&mut self, now: Now, id: TaskId) {
        let Some(record) = self.tasks.records.get_mut(&id).filter(|record| record.pin.is_none()) else { return };
        let Some(digest) = self.archives.catalog.present(&record.tool).map(|held| held.digest) else { return };
        record.pin = Some(digest);
        let tool = record.tool.clone();
        self.pin(now, &tool, digest);
    }

    /// A task names other files than before.
    pub(super) fn rename_files(&mut self, before: &[ToolDigest], after: &[ToolDigest]) {
        // In this order, so that a file in both lists never counts as one without a task.
        after.iter().for_each(|digest| self.archives.catalog.name_file(*digest));
        before.iter().for_each(|digest| self.archives.catalog.unname_file(*digest));
    }

    /// A task with this pin has changed its phase.
    pub(super) fn move_pin(&mut self, now: Now, pin: Option<(ToolName, ToolDigest)>, before: Phase, after: Phase) {
        let Some((tool, digest)) = pin else { return };
        match (before, after) {
            (Phase::Finished, Phase::Finished) => {}
            (_, Phase::Finished) => self.unpin(now, &tool, digest),
            (Phase::Finished, _) => self.pin(now, &tool, digest),
            _ => {}
        }
    }
}

/// The files that a task names: its inputs, and the kept files of its last run if it has finished.
pub(super) fn files_of(record: &TaskRecord) -> Vec<ToolDigest> {
    let Some(files) = &record.files else { return Vec::new() };
    let result = record.result().filter(|_| record.phase() == Phase::Finished);
    let kept = result.and_then(|result| result.files.as_ref()).into_iter().flat_map(|kept| &kept.files);
    files.inputs.iter().map(|input| input.digest).chain(kept.map(|file| file.digest)).collect()
}

/// A task that is retried gets the present version of its tool, if its own one has not been kept.
pub(super) fn renew(catalog: &Catalog, record: &mut TaskRecord) {
    if record.pin.is_some_and(|pin| catalog.size(&pin).is_none()) {
        let present = catalog.present(&record.tool).map(|held| held.digest);
        record.pin = present.or(record.pin);
    }
}
