//! Pushed archives: parts of them are appended until they are complete ([`super::uploads`]).

use std::fs::{self, File};
use std::io;

use super::uploads::{append, name_of};
use super::{ArchiveStore, digest_of, refused};
use api::wire::Refusal;
use api::wire::requests::tool::{ToolLogRow, ToolPut};
use base::code::Code;
use base::{HeldTool, ToolName, ToolPaths};
use engine::{FileRoom, Uploader, Written};
use proc::clock;

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
        let name = name_of(&put.digest, Uploader::Client);
        let path = self.incoming(&name);
        let room = FileRoom { uploader: Uploader::Client, bytes: u64::MAX };
        self.make_room(&name, (put.total, put.data.len()), room)?;
        let (file, _, end) = append(&path, (put.total, put.offset), &put.data).map_err(failed)?;
        if end < put.total {
            return Ok(Written::Part(end));
        }
        if digest_of(&file).map_err(failed)? != put.digest {
            fs::remove_file(&path).map_err(failed)?;
            let message = format!(
                "the bytes that arrived for tool {} are not those of the archive {}; push it again",
                put.tool,
                put.digest.short()
            );
            return Err(Refusal::new(Code::BadField, message));
        }
        if let Err(why) = super::look_into(&file, &put.tool, &self.limits) {
            fs::remove_file(&path).map_err(failed)?;
            let message = format!("the archive cannot become tool {}: {why}", put.tool);
            return Err(Refusal::new(Code::BadField, message));
        }
        self.publish(&path, &put.digest).map_err(failed)?;
        self.name(put)
    }

    /// The name stands for the archive from here on.
    fn name(&mut self, put: &ToolPut) -> Result<Written, Refusal> {
        let failed = |error: io::Error| refused("name", &put.tool, &error);
        self.send_all(&put.digest).map_err(failed)?;
        self.end_elsewhere(&put.tool).map_err(failed)?;
        let file = File::open(self.path(&put.digest)).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let (manifest, paths) = super::look_into(&file, &put.tool, &self.limits).map_err(|why| {
            Refusal::new(Code::BadField, format!("the archive cannot become tool {}: {why}", put.tool))
        })?;
        let at = clock::now().wall;
        let (tool, digest, by) = (put.tool.clone(), put.digest, put.by.clone());
        let present = self.log.of(&tool).filter(|held| held.digest == digest).cloned();
        let held = match present {
            Some(held) => held,
            None => {
                let row = ToolLogRow {
                    at,
                    tool: tool.clone(),
                    digest: Some(digest),
                    size,
                    by: by.clone(),
                    is_of_folder: false,
                };
                self.log.append(row, self.mirrored.as_mut()).map_err(failed)?;
                HeldTool { name: tool, digest, size, at, by, manifest: None, paths: ToolPaths::default() }
            }
        };
        Ok(Written::Whole(Box::new(HeldTool { manifest, paths, ..held })))
    }

    /// A pushed name stands for nothing any more.
    ///
    /// # Errors
    /// When the change is not on the disk.
    pub(super) fn remove(&mut self, tool: &ToolName, by: &std::sync::Arc<str>) -> Result<(), Refusal> {
        let has_ended = self.end_elsewhere(tool).map_err(|error| refused("remove", tool, &error))?;
        if has_ended && self.log.of(tool).is_none() {
            return Ok(());
        }
        let at = clock::now().wall;
        let row = ToolLogRow { at, tool: tool.clone(), digest: None, size: 0, by: by.clone(), is_of_folder: false };
        self.log.append(row, self.mirrored.as_mut()).map_err(|error| refused("remove", tool, &error))
    }

    /// A name does not stand for an archive in the folder of another machine any more. Returns whether it did before.
    fn end_elsewhere(&mut self, tool: &ToolName) -> io::Result<bool> {
        let own = self.by();
        if self.log.in_folder(tool).is_none_or(|held| held.by == own) {
            return Ok(false);
        }
        let (at, tool) = (clock::now().wall, tool.clone());
        let row = ToolLogRow { at, tool, digest: None, size: 0, by: own, is_of_folder: true };
        self.log.append(row, self.mirrored.as_mut()).map(|()| true)
    }
}
