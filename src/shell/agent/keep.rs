//! The files of a run that are kept with its task: what matches a pattern when no process of the run is left goes into the store of the
//! controller, before the result is reported.
//!
//! | a file | is |
//! |---|---|
//! | regular, with one name, below the folder in which the run started, and not an input that is as it was | kept |
//! | a link, a device, or one with a second name | not kept, which the note says: it may be the file of another |
//! | beyond `OUT_FILES_BYTES_MAX`, [`KeptFiles::FILES_MAX`] or what the controller accepts | not kept, which the note says |
//!
//! | event | then |
//! |---|---|
//! | the controller does not answer, or starts anew | the part is repeated until it does; the store continues behind the bytes that it has |
//! | the agent is told to end the run, or to stop | the rest is not kept; a stopping agent does not report the run, so that it runs again |
//! | the agent is killed | the run has no result, and the task runs again as its policy says; no part of a file counts |

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};

use super::fetch::Fetcher;
use crate::protocol::requests::apply::Job;
use crate::shell::file_digest::digest_of;
use crate::types::{FileName, KeptFile, KeptFiles, TaskFiles};

/// Most entries of folders that are looked at, and most folders above one another.
const ENTRIES_MAX: usize = 100_000;
const DEPTH_MAX: usize = 32;

/// Keeps the files of a run.
pub(super) fn keep(
    fetcher: &Fetcher,
    (job, files): (&Job, &TaskFiles),
    folder: &impl AsFd,
    bytes_max: u64,
    stop: &AtomicBool,
) -> KeptFiles {
    let mut kept = KeptFiles::default();
    let found = match Search::through(folder.as_fd(), files) {
        Ok(found) => found,
        Err(error) => {
            kept.add_note(&format!("the folder of task {} cannot be searched: {error}", job.task));
            return kept;
        }
    };
    if found.is_cut {
        kept.add_note(&format!("only {ENTRIES_MAX} entries of the folder were looked at"));
    }
    let (mut bytes, mut names) = (0_u64, 0);
    for (name, is_regular) in found.files {
        if stop.load(Ordering::Relaxed) {
            kept.add_note(&format!("{name} was not kept: the run was ended before that"));
            continue;
        }
        let one = Keeping { fetcher, files, folder: folder.as_fd(), stop };
        let room = bytes_max.saturating_sub(bytes);
        let is_full =
            kept.files.len() >= KeptFiles::FILES_MAX || names + name.as_str().len() > KeptFiles::NAMES_BYTES_MAX;
        match one.keep(&name, is_regular, room, is_full) {
            Ok(Some(file)) => {
                bytes += file.bytes;
                names += name.as_str().len();
                kept.files.push(file);
            }
            Ok(None) => {}
            Err(why) => kept.add_note(&format!("{name} was not kept: {why}")),
        }
    }
    if !kept.note.is_empty() {
        log::warn!("task {}: {}", job.task, kept.note);
    }
    kept
}

struct Keeping<'a> {
    fetcher: &'a Fetcher,
    files: &'a TaskFiles,
    folder: BorrowedFd<'a>,
    stop: &'a AtomicBool,
}

impl Keeping<'_> {
    /// Keeps one file; `None` for an input that is as it was.
    fn keep(&self, name: &FileName, is_regular: bool, room: u64, is_full: bool) -> Result<Option<KeptFile>, String> {
        if !is_regular {
            return Err("it is no regular file, or has a second name".to_owned());
        }
        if is_full {
            let (files, bytes) = (KeptFiles::FILES_MAX, KeptFiles::NAMES_BYTES_MAX);
            return Err(format!("at most {files} files are, with at most {bytes} bytes of names"));
        }
        let unreadable = |error: io::Error| format!("it cannot be read: {error}");
        let file = open(self.folder, name).map_err(unreadable)?;
        let bytes = file.metadata().map_err(unreadable)?.size();
        if bytes > room {
            return Err(format!("it has {bytes} bytes, and {room} are left for this task (OUT_FILES_BYTES_MAX)"));
        }
        let digest = digest_of(&file).map_err(unreadable)?;
        if self.files.inputs.iter().any(|input| input.name == *name && input.digest == digest) {
            return Ok(None);
        }
        self.fetcher.send_file(&file, (digest, bytes), self.stop)?;
        Ok(Some(KeptFile { name: name.clone(), digest, bytes }))
    }
}

/// Opens a regular file below a folder, without following any link.
fn open(folder: BorrowedFd<'_>, name: &FileName) -> io::Result<File> {
    let parts: Vec<&str> = name.parts().collect();
    let (last, folders) = parts.split_last().ok_or(io::ErrorKind::NotFound)?;
    Ok(crate::shell::workspace::open_regular(folder, folders, last)?)
}

/// The files that match a pattern.
struct Search<'a> {
    files: BTreeMap<FileName, bool>,
    patterns: &'a TaskFiles,
    entries: usize,
    is_cut: bool,
}

impl<'a> Search<'a> {
    fn through(folder: BorrowedFd<'_>, patterns: &'a TaskFiles) -> io::Result<Self> {
        let mut search = Search { files: BTreeMap::new(), patterns, entries: 0, is_cut: false };
        search.look(folder, "", 1)?;
        Ok(search)
    }

    fn look(&mut self, folder: BorrowedFd<'_>, path: &str, depth: usize) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(folder, ".", flags, Mode::empty())?;
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | "..") {
                continue;
            }
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                self.is_cut = true;
                return Ok(());
            }
            // A name with a control character matches no pattern.
            let Ok(place) = FileName::new(&format!("{path}{name}")) else { continue };
            let Ok(stat) = statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => self.descend(opened.as_fd(), (name, &place), depth),
                kind if self.patterns.outputs.iter().any(|pattern| pattern.matches(&place)) => {
                    self.files.insert(place, kind == FileType::RegularFile && stat.st_nlink == 1);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Looks into a folder below, if a pattern can match there. One that cannot be opened has nothing to keep.
    fn descend(&mut self, folder: BorrowedFd<'_>, (name, place): (&str, &FileName), depth: usize) {
        let reaches = |max: Option<usize>| max.is_none_or(|max| depth < max);
        if depth >= DEPTH_MAX || !self.patterns.outputs.iter().any(|pattern| reaches(pattern.depth_max())) {
            return;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if let Ok(below) = openat(folder, name, flags, Mode::empty()) {
            let _ = self.look(below.as_fd(), &format!("{place}/"), depth + 1);
        }
    }
}
