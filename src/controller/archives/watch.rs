//! Whether an archive in the controller's own tools folder has changed since it was read into the store.
//!
//! A submit names a tool, and pins the version that is there at that moment. So the file is looked at in each turn with such a
//! submit: one `stat` for a tool and turn, however many submits name it. A notice of the kernel would come too late. A list of
//! the tools looks at the whole folder.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use super::intake::Seen;
use base::{Mono, ToolName};
use proc::files::file_stamp::FileStamp;

/// The archives that were read.
pub(super) struct Watch {
    tools_dir: PathBuf,
    seen: BTreeMap<ToolName, (Seen, Mono)>,
    /// The last turn in which the whole folder was looked at.
    listed: Option<Mono>,
}

impl Watch {
    pub(super) const fn new(tools_dir: PathBuf) -> Self {
        Self { tools_dir, seen: BTreeMap::new(), listed: None }
    }

    fn stamp(&self, tool: &ToolName) -> Option<FileStamp> {
        let metadata = fs::metadata(self.tools_dir.join(tool.archive_name())).ok()?;
        Some(FileStamp::from(&metadata))
    }

    /// Whether the archive of a tool may differ from the one that was read. `turn` identifies the turn.
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

    /// The tools of the folder, and those that were read from it before, whose archives may differ from those that were read.
    pub(super) fn changed(&mut self, turn: Mono) -> Vec<ToolName> {
        if self.listed.replace(turn) == Some(turn) {
            return Vec::new();
        }
        let mut tools: BTreeSet<ToolName> = self.seen.keys().cloned().collect();
        let entries = fs::read_dir(&self.tools_dir).into_iter().flatten().flatten();
        tools.extend(entries.filter_map(|entry| tool_of(&entry.file_name())));
        tools.into_iter().filter(|tool| self.has_changed(turn, tool)).collect()
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

/// The tool whose archive has this name.
fn tool_of(name: &OsStr) -> Option<ToolName> {
    ToolName::new(name.to_str()?.strip_suffix(".tar.gz")?).ok()
}
