//! An archive of the controller's own tools folder on its way into the store.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;

use super::{ArchiveStore, digest_of};
use api::tools::{ToolError, open_archive};
use api::wire::requests::tool::ToolLogRow;
use base::{HeldTool, ToolDigest, ToolName};
use proc::clock;
use proc::files::file_copy::copy_into;
use proc::files::file_stamp::{FileStamp, wall};

/// How often an archive is read again if it changes meanwhile.
const ATTEMPTS: usize = 8;

/// The origin of a version that was not pushed.
const BY: &str = "AGENT_TOOLS_DIR";

/// The archive of a tool as it was read.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    /// The version, if an agent could run it.
    pub(super) held: Option<HeldTool>,
    /// The file; `None` if there is none.
    pub(super) seen: Option<Seen>,
}

/// A file of the tools folder at the time when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) stamp: FileStamp,
    /// Whether a later change is certain to alter the stamp.
    pub(super) is_settled: bool,
}

impl ArchiveStore {
    /// The origin of the versions of the tools folder.
    pub(super) fn by(&self) -> Arc<str> {
        match &self.mirrored {
            None => BY.into(),
            Some(mirrored) => format!("{BY} of {}", mirrored.home()).into(),
        }
    }

    /// Reads the archive of a tool into the store; `None` if it is there, but could not be sent to the mirror.
    pub(super) fn take(&mut self, tool: &ToolName) -> Option<Taken> {
        // One that cannot even be opened is known by this: without it, it would be read again for ever.
        let mut seen = self.glance(tool);
        for _ in 0..ATTEMPTS {
            match self.take_once(tool, &mut seen) {
                Ok(Some(held)) => {
                    self.refused.remove(tool);
                    return Some(Taken { held, seen });
                }
                Ok(None) => {}
                Err(Defect::Missing) => return Some(Taken { held: None, seen: None }),
                Err(Defect::Unsent(why)) => {
                    log::warn!("the archive of tool {tool} is not sent to the store of the queue yet: {why}");
                    return None;
                }
                Err(Defect::Lasting(why)) => {
                    self.refuse(tool, why);
                    return Some(Taken { held: None, seen });
                }
                Err(Defect::Passing(why)) => {
                    self.refuse(tool, format!("{why}; it is read again when it is named"));
                    return Some(Taken { held: None, seen: seen.map(|seen| Seen { is_settled: false, ..seen }) });
                }
            }
        }
        Some(Taken { held: None, seen: None })
    }

    /// The archive of a tool as it is without being opened.
    fn glance(&self, tool: &ToolName) -> Option<Seen> {
        let metadata = fs::metadata(self.tools_dir.join(tool.archive_name())).ok()?;
        let stamp = FileStamp::from(&metadata);
        Some(Seen { stamp, is_settled: stamp.is_settled(clock::now().wall) })
    }

    /// Logs why the archive of a tool is not taken, unless that is known.
    fn refuse(&mut self, tool: &ToolName, why: String) {
        if self.refused.get(tool) != Some(&why) {
            let archive = self.tools_dir.join(tool.archive_name());
            log::warn!("{} is not offered to agents that lack it: {why}", archive.display());
            self.refused.insert(tool.clone(), why);
        }
    }

    /// Records the version that a name stands for because of its archive in the folder, unless the log says the same already.
    pub(super) fn note_folder(&mut self, tool: &ToolName, held: Option<(ToolDigest, u64)>) {
        let digest = held.map(|(digest, _)| digest);
        if self.log.in_folder(tool).map(|held| held.digest) == digest {
            return;
        }
        let (at, size) = (clock::now().wall, held.map_or(0, |(_, size)| size));
        let row = ToolLogRow { at, tool: tool.clone(), digest, size, by: self.by(), is_of_folder: true };
        if let Err(error) = self.log.append(row, self.mirrored.as_mut()) {
            log::warn!(
                "cannot record in the log of tool {tool} that its archive in AGENT_TOOLS_DIR has changed: {error}"
            );
        }
    }

    /// Records the archives that have left the folder while no controller was running.
    pub(super) fn note_gone(&mut self) {
        let is_gone = |tool: &&ToolName| {
            let there = fs::symlink_metadata(self.tools_dir.join(tool.archive_name()));
            there.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let own = self.by();
        let ours = self.log.of_folder().filter(|held| held.by == own).map(|held| &held.name);
        let gone: Vec<ToolName> = ours.filter(is_gone).cloned().collect();
        gone.iter().for_each(|tool| self.note_folder(tool, None));
    }

    /// `None` if the archive changed meanwhile.
    fn take_once(&mut self, tool: &ToolName, seen: &mut Option<Seen>) -> Result<Option<Option<HeldTool>>, Defect> {
        let (file, stamp, is_settled) = open_archive(&self.tools_dir, tool)?;
        *seen = Some(Seen { stamp, is_settled });
        if stamp.size > self.limits.packed_bytes {
            let max = self.limits.packed_bytes;
            return Err(Defect::Lasting(format!(
                "it has {} bytes; at most {max} are accepted (ARCHIVE_BYTES_MAX)",
                stamp.size
            )));
        }
        let digest = digest_of(&file)?;
        let (manifest, paths) = super::look_into(&file, tool, &self.limits).map_err(Defect::Lasting)?;
        let path = self.path(&digest);
        let is_there = fs::metadata(&path).is_ok_and(|there| there.len() == stamp.size);
        if !is_there {
            let new = self.dir.join(".new");
            let copied = copy(&file, &new);
            // The copy counts, because the archive may have been written to.
            if copied.is_err() || File::open(&new).and_then(|file| digest_of(&file))? != digest {
                let _ = fs::remove_file(&new);
                copied?;
                return Ok(None);
            }
            self.publish(&new, &digest)?;
        }
        self.send_all(&digest).map_err(|error| Defect::Unsent(error.to_string()))?;
        let after = FileStamp::from(&file.metadata()?);
        if (after.size, after.modified) != (stamp.size, stamp.modified) {
            return Ok(None);
        }
        let at = wall(stamp.modified.max(stamp.changed));
        let name = tool.clone();
        Ok(Some(Some(HeldTool { name, digest, size: stamp.size, at, by: self.by(), manifest, paths })))
    }
}

/// Why an archive is not taken.
enum Defect {
    Missing,
    /// It cannot be sent to the mirror.
    Unsent(String),
    /// The file is not one that agents can run.
    Lasting(String),
    /// The system cannot read or copy the file at this moment.
    Passing(String),
}

impl From<io::Error> for Defect {
    fn from(error: io::Error) -> Self {
        Self::Passing(error.to_string())
    }
}

impl From<ToolError> for Defect {
    fn from(error: ToolError) -> Self {
        match error {
            ToolError::Missing { .. } => Self::Missing,
            ToolError::Io { .. } => Self::Passing(error.to_string()),
            _ => Self::Lasting(error.to_string()),
        }
    }
}

/// Copies a file over an earlier copy.
fn copy(from: &File, to: &std::path::Path) -> io::Result<()> {
    let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(to)?;
    copy_into(from, &file)
}
