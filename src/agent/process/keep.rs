//! The files of a run that are kept with its task. When no process of the run is left, all files that match a pattern go into the
//! store of the controller; then the result is reported.
//!
//! | a file | is |
//! |---|---|
//! | regular, with one name, below the folder in which the run started | kept, with its right to be executed |
//! | as it was before the run: an input, or a file of the tool with its content and that right | not kept |
//! | a link, a device, or a file with a second name | not kept, with a note: the file may be another user's |
//! | a file with a control character in its name | not kept, with a note: no list of names could have it |
//! | beyond `OUT_FILES_BYTES_MAX`, [`KeptFiles::FILES_MAX`] or a limit of the controller | not kept, with a note |
//!
//! | event | then |
//! |---|---|
//! | the controller does not answer, or restarts | the part is repeated; the store continues behind the bytes that it has |
//! | the run is killed, or the agent stops | the rest is not kept; a stopping agent does not report the run, and the task runs again |
//! | the agent is killed | the run has no result, and the task runs again by its policy; no part of a file counts |

mod search;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use search::{open, search};

use super::fetch::Fetcher;
use api::wire::requests::apply::Dispatch;
use base::{FileName, KeptFile, KeptFiles, TaskFiles, TaskId, ToolDigest};
use proc::files::file_digest::digest_of;

/// The files of a tool that match a pattern, before its run: their content and whether they are executable, or `None` for one that
/// is not regular.
#[derive(Debug, Default)]
pub(super) struct Before(BTreeMap<FileName, Option<Content>>);

/// A file with equal content counts as unchanged.
type Content = (ToolDigest, bool);

impl Before {
    /// Reads the files of a folder that match a pattern.
    ///
    /// # Errors
    /// When one cannot be read.
    pub(super) fn read(folder: &impl AsFd, files: &TaskFiles) -> io::Result<Self> {
        let folder = folder.as_fd();
        let of = |(name, is_regular): (FileName, bool)| {
            let content = if is_regular { Some(content(&open(folder, &name)?)?) } else { None };
            Ok((name, content))
        };
        search(folder, &files.outputs)?.files.into_iter().map(of).collect::<io::Result<_>>().map(Self)
    }
}

fn content(file: &File) -> io::Result<Content> {
    Ok((digest_of(file)?, is_executable(file)?))
}

fn is_executable(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.mode() & 0o100 != 0)
}

/// Keeps the files of a run.
pub(super) fn keep(
    fetcher: &Fetcher,
    (dispatch, files, before): (&Dispatch, &TaskFiles, &Before),
    folder: &impl AsFd,
    bytes_max: u64,
    stop: &AtomicBool,
) -> KeptFiles {
    let mut kept = KeptFiles::default();
    let found = match search(folder.as_fd(), &files.outputs) {
        Ok(found) => found,
        Err(error) => {
            kept.add_note(&format!("the folder of task {} cannot be searched: {error}", dispatch.task));
            return kept;
        }
    };
    let mut is_idle: Vec<bool> = (0..files.outputs.len()).map(|pattern| !found.is_noted(pattern)).collect();
    kept.note = found.notes.note;
    let (mut bytes, mut names) = (0_u64, 0);
    for (name, is_regular) in found.files {
        let one = Keeping { fetcher, task: dispatch.task, files, before, folder: folder.as_fd(), stop };
        let room = bytes_max.saturating_sub(bytes);
        let is_full =
            kept.files.len() >= KeptFiles::FILES_MAX || names + name.as_str().len() > KeptFiles::NAMES_BYTES_MAX;
        let is_kept = one.keep(&name, is_regular, room, is_full);
        if !matches!(is_kept, Ok(None)) {
            let patterns = is_idle.iter_mut().zip(&files.outputs);
            patterns.for_each(|(is_idle, pattern)| *is_idle &= !pattern.matches_text(name.as_str()));
        }
        match is_kept {
            Ok(Some(file)) => {
                bytes += file.bytes;
                names += name.as_str().len();
                kept.files.push(file);
            }
            Ok(None) => {}
            Err(why) => kept.add_note(&format!("{name} was not kept: {why}")),
        }
    }
    let idle = files.outputs.iter().zip(is_idle).filter_map(|(pattern, is_idle)| is_idle.then_some(pattern));
    kept.add_idle(idle);
    if !kept.note.is_empty() {
        log::warn!("task {}: {}", dispatch.task, kept.note);
    }
    kept
}

struct Keeping<'a> {
    fetcher: &'a Fetcher,
    task: TaskId,
    files: &'a TaskFiles,
    before: &'a Before,
    folder: BorrowedFd<'a>,
    stop: &'a AtomicBool,
}

impl Keeping<'_> {
    /// Keeps one file; `None` for one that is as it was before the run.
    fn keep(&self, name: &FileName, is_regular: bool, room: u64, is_full: bool) -> Result<Option<KeptFile>, String> {
        if self.stop.load(Ordering::Relaxed) {
            return Err("the run was ended before that".to_owned());
        }
        let before = self.before.0.get(name);
        if !is_regular {
            let why = "it is no regular file, or has a second name".to_owned();
            return if before == Some(&None) { Ok(None) } else { Err(why) };
        }
        let unreadable = |error: io::Error| format!("it cannot be read: {error}");
        let file = open(self.folder, name).map_err(unreadable)?;
        let bytes = file.metadata().map_err(unreadable)?.size();
        let too_much = if is_full {
            let (files, bytes) = (KeptFiles::FILES_MAX, KeptFiles::NAMES_BYTES_MAX);
            Some(format!("at most {files} files are, with at most {bytes} bytes of names"))
        } else if bytes > room {
            Some(format!("it has {bytes} bytes, and {room} are left for this task (OUT_FILES_BYTES_MAX)"))
        } else {
            None
        };
        let mut inputs = self.files.inputs.iter();
        let was = inputs
            .find(|input| input.name == *name)
            .map(|input| (input.digest, input.is_executable))
            .or_else(|| before.copied().flatten());
        // A new file is too much with any content.
        if was.is_none()
            && let Some(why) = too_much
        {
            return Err(why);
        }
        let (digest, is_executable) = content(&file).map_err(unreadable)?;
        if was == Some((digest, is_executable)) {
            return Ok(None);
        }
        if let Some(why) = too_much {
            return Err(why);
        }
        self.fetcher.send_file(&file, (digest, bytes), self.task, self.stop)?;
        Ok(Some(KeptFile { name: name.clone(), digest, bytes, is_executable }))
    }
}
