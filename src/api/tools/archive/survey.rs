//! The files of an archive and the content of its `tool.toml`, without unpacking it.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::AtomicBool;

use super::input::{Input, Watch};
use super::members::{Kind, Members};
use super::{ArchiveError, Limits, Packing};
use crate::tools::RUN_SCRIPT;
use crate::wire::tool_manifest;
use base::{ToolName, os_text};

/// What an archive contains.
#[derive(Debug, Default)]
pub struct Survey {
    /// The paths of its files, folders and links in the folder of the tool, each with its bytes. The path of a folder ends with a
    /// slash.
    pub files: Vec<(String, u64)>,
    /// Whether it has a run.sh.
    pub has_script: bool,
    /// The content of its `tool.toml`.
    pub manifest: Option<Vec<u8>>,
}

/// Lists an archive from its first byte, without moving its cursor.
///
/// # Errors
/// When it is damaged, hostile or beyond a limit.
pub fn survey(archive: &File, tool: &ToolName, limits: &Limits, stop: &AtomicBool) -> Result<Survey, ArchiveError> {
    const MANIFEST: &str = "tool.toml";
    let input = Input::new(archive, Packing::Gzip, limits, Watch::start(limits.timeout, stop))?;
    let mut members = Members::new(input, limits);
    let mut survey = Survey::default();
    let (own, mut manifests) = (format!("{tool}/"), [None, None]);
    while let Some(member) = members.next()? {
        let mut path = os_text(OsStr::from_bytes(member.path.as_bytes()));
        let place =
            [path.as_str(), path.strip_prefix(&own).unwrap_or_default()].iter().position(|path| *path == MANIFEST);
        let mut size = 0;
        if let Kind::File { bytes } = member.kind {
            size = bytes;
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
        if let Kind::Folder = member.kind {
            path.push('/');
        }
        survey.files.push((path, size));
    }
    members.input.finish()?;
    let [at_the_top, in_its_folder] = manifests;
    let is_flat = survey.files.iter().any(|(path, _)| path == RUN_SCRIPT);
    if is_flat {
        survey.manifest = at_the_top;
    } else {
        survey.manifest = in_its_folder;
        let files = std::mem::take(&mut survey.files).into_iter();
        let inner = |(path, size): (String, u64)| Some((path.strip_prefix(&own)?.to_owned(), size));
        survey.files = files.filter_map(inner).collect();
    }
    survey.files.retain(|(path, _)| !path.is_empty());
    survey.has_script = survey.files.iter().any(|(path, _)| path == RUN_SCRIPT);
    Ok(survey)
}
