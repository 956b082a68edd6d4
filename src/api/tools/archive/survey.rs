//! The files of an archive and the content of its `tool.toml`, without unpacking it.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::AtomicBool;

use super::input::{Input, Watch};
use super::inventory::{MANIFEST, Part, Stocktaking};
use super::members::{Kind, Members};
use super::{ArchiveError, Limits, Packing};
use crate::wire::tool_manifest;
use base::{ToolName, os_text};

/// What an archive contains.
#[derive(Debug, Default)]
pub struct Survey {
    /// The paths of its files, folders and links in the folder of the tool, each with its bytes. The path of a folder ends with a
    /// slash.
    pub files: Vec<(String, u64)>,
    /// The content of its `tool.toml`.
    pub manifest: Option<Vec<u8>>,
}

/// Lists an archive from its first byte, without moving its cursor.
///
/// # Errors
/// As [`unpack`](super::unpack), except for those of writing.
pub fn survey(archive: &File, tool: &ToolName, limits: &Limits, stop: &AtomicBool) -> Result<Survey, ArchiveError> {
    let input = Input::new(archive, Packing::Gzip, limits, Watch::start(limits.timeout, stop))?;
    let mut members = Members::new(input, limits);
    let mut stocktaking = Stocktaking::new(tool, limits);
    let places = [MANIFEST.to_owned(), format!("{tool}/{MANIFEST}")];
    let mut manifests = [None, None];
    while let Some(member) = members.next()? {
        if let Kind::File { bytes } = member.kind {
            let place = places.iter().position(|place| place.as_bytes() == member.path.as_bytes());
            let mut content = place.map(|_| Vec::new());
            members.content(bytes, |chunk| {
                // One byte more than is accepted, to show that it is too long.
                if let Some(content) = content.as_mut().filter(|content| content.len() <= tool_manifest::BYTES_MAX) {
                    content.extend_from_slice(chunk);
                }
                Ok(())
            })?;
            if let Some(place) = place {
                manifests[place] = content;
            }
        }
        stocktaking.add(&member, members.seal())?;
    }
    members.input.finish()?;
    let inventory = stocktaking.finish()?;
    let files = inventory.parts().map(|(path, part)| {
        let path = os_text(OsStr::from_bytes(path));
        match part {
            Part::Folder => (path + "/", 0),
            Part::File { bytes, .. } => (path, *bytes),
            Part::Symlink { .. } => (path, 0),
        }
    });
    // In an archive with files at the top, a folder with the name of the tool is an ordinary one, and so is what it contains.
    let [at_the_top, in_its_folder] = manifests;
    let manifest = inventory.part(MANIFEST.as_bytes()).and(at_the_top.or(in_its_folder));
    Ok(Survey { files: files.collect(), manifest })
}
