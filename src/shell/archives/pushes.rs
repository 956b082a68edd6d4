//! Pushed archives and files that are put: parts of them are appended until they are complete.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use super::{ArchiveStore, INCOMING, digest_of, refused};
use crate::engine::controller::{FileWritten, Written};
use crate::protocol::Refusal;
use crate::protocol::code::Code;
use crate::protocol::requests::file::FilePut;
use crate::protocol::requests::tool::{ToolLogRow, ToolPut};
use crate::shell::clock;
use crate::types::{HeldTool, ToolName};

/// Archives and files that may be incomplete at the same time; the one that has waited longest for its next part makes room.
const INCOMING_MAX: usize = 256;

impl ArchiveStore {
    /// Writes a part, unless it does not begin where the earlier ones end.
    ///
    /// # Errors
    /// When the disk is full, or the complete archive is not the announced one or cannot be run.
    pub(super) fn write(&mut self, put: &ToolPut) -> Result<Written, Refusal> {
        let failed = |error: io::Error| refused("write", &put.tool, &error);
        if self.is_right(&put.digest).map_err(failed)? {
            return self.name(put);
        }
        let path = self.dir.join(INCOMING).join(put.digest.to_string());
        let end = self.append(&path, (put.total, put.offset), &put.data).map_err(failed)?;
        if end < put.total {
            return Ok(Written::Part(end));
        }
        let file = File::open(&path).map_err(failed)?;
        if digest_of(&file).map_err(failed)? != put.digest {
            fs::remove_file(&path).map_err(failed)?;
            let message = format!(
                "the bytes that arrived for tool {} are not those of the archive {}; push it again",
                put.tool,
                put.digest.short()
            );
            return Err(Refusal::new(Code::BadField, message));
        }
        if let Err(why) = self.look_into(&file, &put.tool) {
            fs::remove_file(&path).map_err(failed)?;
            let message = format!("the archive cannot become tool {}: {why}", put.tool);
            return Err(Refusal::new(Code::BadField, message));
        }
        self.publish(&path, &put.digest).map_err(failed)?;
        self.name(put)
    }

    /// Writes a part of a file, unless it does not begin where the earlier ones end.
    ///
    /// # Errors
    /// When the disk is full, or the complete file is not the announced one.
    pub(super) fn write_file(&mut self, put: &FilePut) -> Result<FileWritten, Refusal> {
        let digest = put.digest;
        let failed = |error: io::Error| {
            let message = format!("cannot write the file {} into the store: {error}", digest.short());
            Refusal::new(Code::LimitReached, message)
        };
        let written = |end, is_whole| FileWritten { digest, end, is_whole };
        if self.is_right(&digest).map_err(failed)? {
            let end = fs::metadata(self.path(&digest)).map_err(failed)?.len();
            return Ok(written(end, true));
        }
        let path = self.dir.join(INCOMING).join(digest.to_string());
        let end = self.append(&path, (put.total, put.offset), &put.data).map_err(failed)?;
        if end < put.total {
            return Ok(written(end, false));
        }
        if File::open(&path).and_then(|file| digest_of(&file)).map_err(failed)? != digest {
            fs::remove_file(&path).map_err(failed)?;
            let message = format!("the bytes that arrived are not those of the file {}; send it again", digest.short());
            return Err(Refusal::new(Code::BadField, message));
        }
        self.publish(&path, &digest).map_err(failed)?;
        Ok(written(end, true))
    }

    /// Number of bytes that are there after this part.
    fn append(&self, path: &PathBuf, (total, offset): (u64, u64), data: &[u8]) -> io::Result<u64> {
        if !path.exists() {
            self.make_room()?;
        }
        let mut file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let end = file.metadata()?.len();
        if end > total {
            file.set_len(0)?;
            return Ok(0);
        }
        if end != offset || data.is_empty() {
            return Ok(end);
        }
        if let Err(error) = file.write_all(data) {
            file.set_len(end)?;
            return Err(error);
        }
        Ok(end + data.len() as u64)
    }

    fn make_room(&self) -> io::Result<()> {
        let entries = fs::read_dir(self.dir.join(INCOMING))?;
        let aged = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.metadata().ok()?.modified().ok()?, entry.path()))
        });
        let mut aged: Vec<_> = aged.collect();
        aged.sort();
        for (_, path) in aged.iter().take((aged.len() + 1).saturating_sub(INCOMING_MAX)) {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// The name stands for the archive from here on.
    fn name(&mut self, put: &ToolPut) -> Result<Written, Refusal> {
        let failed = |error: io::Error| refused("name", &put.tool, &error);
        let file = File::open(self.path(&put.digest)).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let manifest = self.look_into(&file, &put.tool).map_err(|why| {
            Refusal::new(Code::BadField, format!("the archive cannot become tool {}: {why}", put.tool))
        })?;
        let at = clock::now().wall;
        let (tool, digest, by) = (put.tool.clone(), put.digest, put.by.clone());
        let present = self.log.of(&tool).filter(|held| held.digest == digest).cloned();
        let held = match present {
            Some(held) => held,
            None => {
                let row = ToolLogRow { at, tool: tool.clone(), digest: Some(digest), size, by: by.clone() };
                self.log.append(row).map_err(failed)?;
                HeldTool { name: tool, digest, size, at, by, manifest: None }
            }
        };
        Ok(Written::Whole(Box::new(HeldTool { manifest, ..held })))
    }

    /// A pushed name stands for nothing any more.
    ///
    /// # Errors
    /// When the change is not on the disk.
    pub(super) fn remove(&mut self, tool: &ToolName, by: &std::sync::Arc<str>) -> Result<(), Refusal> {
        let at = clock::now().wall;
        let row = ToolLogRow { at, tool: tool.clone(), digest: None, size: 0, by: by.clone() };
        self.log.append(row).map_err(|error| refused("remove", tool, &error))
    }
}
