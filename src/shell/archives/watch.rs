//! Whether an archive in the controller's own tools folder has changed since it was read into the store.
//!
//! A submit names a tool, and pins the version that is there at that moment. So the file is looked at in each turn with such a
//! submit: one `stat` for a tool and turn, however many submits name it. A notice of the kernel would come too late.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::intake::Seen;
use crate::shell::file_stamp::FileStamp;
use crate::types::{Mono, ToolName};

/// The archives that were read.
pub(super) struct Watch {
    tools_dir: PathBuf,
    seen: BTreeMap<ToolName, (Seen, Mono)>,
}

impl Watch {
    pub(super) const fn new(tools_dir: PathBuf) -> Self {
        Self { tools_dir, seen: BTreeMap::new() }
    }

    fn stamp(&self, tool: &ToolName) -> Option<FileStamp> {
        let metadata = fs::metadata(self.tools_dir.join(tool.archive_name())).ok()?;
        Some(FileStamp::from(&metadata))
    }

    /// Whether the archive of a tool may be another one than the one that was read. `turn` identifies the turn.
    pub(super) fn has_changed(&mut self, turn: Mono, tool: &ToolName) -> bool {
        if self.seen.get(tool).is_some_and(|(_, looked)| *looked == turn) {
            return false;
        }
        let stamp = self.stamp(tool);
        match (self.seen.get_mut(tool), stamp) {
            (None, stamp) => stamp.is_some(),
            (Some((seen, looked)), Some(stamp)) if seen.is_settled && seen.stamp == stamp => {
                *looked = turn;
                false
            }
            (Some(_), _) => true,
        }
    }

    /// The archive of a tool was read. False if it has changed again since.
    pub(super) fn was_read(&mut self, turn: Mono, tool: &ToolName, read: Option<Seen>) -> bool {
        match read {
            None => drop(self.seen.remove(tool)),
            Some(seen) => drop(self.seen.insert(tool.clone(), (seen, turn))),
        }
        self.stamp(tool) == read.map(|seen| seen.stamp)
    }
}
