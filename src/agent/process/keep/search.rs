//! The files of a folder that match patterns.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};

use base::{FileName, FilePattern, KeptFiles, in_quotes, os_text};

/// Most entries of folders in a search, and its maximum depth.
const ENTRIES_MAX: usize = 100_000;
const DEPTH_MAX: usize = 32;

/// The result of a search.
#[derive(Default)]
pub(super) struct Found {
    /// Each file that matches, and whether it is a regular one without a second name.
    pub(super) files: BTreeMap<FileName, bool>,
    /// Sentences about folders that could not be read, and about names that cannot be written down.
    pub(super) notes: KeptFiles,
    /// The patterns that such a file matches.
    noted: Vec<bool>,
}

impl Found {
    /// Whether a pattern, by its place, matches a file with a name that cannot be written down.
    pub(super) fn is_noted(&self, pattern: usize) -> bool {
        self.noted.get(pattern).copied().unwrap_or_default()
    }
}

/// Opens a regular file below a folder, without following any link.
pub(super) fn open(folder: BorrowedFd<'_>, name: &FileName) -> io::Result<File> {
    let parts: Vec<OsString> = name.parts().collect();
    let (last, folders) = parts.split_last().ok_or(io::ErrorKind::NotFound)?;
    Ok(crate::workspace::open_regular(folder, folders, last)?)
}

/// The files below a folder that match one of these patterns.
pub(super) fn search(folder: BorrowedFd<'_>, patterns: &[FilePattern]) -> io::Result<Found> {
    let mut search = Search { found: Found::default(), patterns, entries: 0, is_deep: false };
    search.found.noted = vec![false; patterns.len()];
    search.look(folder, &[], 1)?;
    let Search { mut found, entries, is_deep, .. } = search;
    if entries > ENTRIES_MAX {
        found.notes.add_note(&format!("only {ENTRIES_MAX} entries of the folder were looked at"));
    }
    if is_deep {
        found.notes.add_note(&format!("folders below {DEPTH_MAX} others were not looked at"));
    }
    Ok(found)
}

struct Search<'a> {
    found: Found,
    patterns: &'a [FilePattern],
    entries: usize,
    is_deep: bool,
}

impl Search<'_> {
    fn look(&mut self, folder: BorrowedFd<'_>, path: &[u8], depth: usize) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(folder, ".", flags, Mode::empty())?;
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return Ok(());
            }
            let Ok(stat) = statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let place = [path, name.to_bytes()].concat();
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let below = openat(&opened, name, flags, Mode::empty());
                    self.descend(below.map_err(io::Error::from), place, depth);
                }
                kind => self.take(&place, kind == FileType::RegularFile && stat.st_nlink == 1),
            }
        }
        Ok(())
    }

    fn take(&mut self, place: &[u8], is_regular: bool) {
        let text = os_text(OsStr::from_bytes(place));
        let mut matches = false;
        let name = FileName::new(&text);
        for (noted, pattern) in self.found.noted.iter_mut().zip(self.patterns) {
            if pattern.matches_text(&text) {
                matches = true;
                *noted |= name.is_err();
            }
        }
        match name {
            Ok(name) if matches => drop(self.found.files.insert(name, is_regular)),
            Err(why) if matches => {
                self.found.notes.add_note(&format!("{} was not kept: its name {why}", in_quotes(&text)));
            }
            _ => {}
        }
    }

    /// Looks into a folder below, if a pattern can match there.
    fn descend(&mut self, below: io::Result<impl AsFd>, mut place: Vec<u8>, depth: usize) {
        let reaches = |max: Option<usize>| max.is_none_or(|max| depth < max);
        if !self.patterns.iter().any(|pattern| reaches(pattern.depth_max())) {
            return;
        }
        if depth >= DEPTH_MAX {
            self.is_deep = true;
            return;
        }
        let folder = in_quotes(&os_text(OsStr::from_bytes(&place)));
        place.push(b'/');
        if let Err(error) = below.and_then(|below| self.look(below.as_fd(), &place, depth + 1)) {
            self.found.notes.add_note(&format!("the folder {folder} was not looked into: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_name_that_cannot_be_written_down_is_noted_if_it_matches() {
        let ground = tempfile::tempdir().unwrap();
        let place = |name: &[u8]| ground.path().join(OsStr::from_bytes(name));
        for name in [&b"a\nb.out"[..], b"\x01\xff.out", b"\xff.out", b"\xfe.other", b"\xc3\xa4.out"] {
            fs::write(place(name), "x").unwrap();
        }
        fs::create_dir(place(b"f\x01")).unwrap();
        fs::write(place(b"f\x01/c.out"), "x").unwrap();
        let found = |patterns: &[&str]| {
            let patterns: Vec<_> = patterns.iter().map(|pattern| FilePattern::new(pattern).unwrap()).collect();
            search(File::open(ground.path()).unwrap().as_fd(), &patterns).unwrap()
        };
        let found_here = found(&["*.out", "none"]);
        assert_eq!(found_here.files.keys().map(FileName::as_str).collect::<Vec<_>>(), ["\0ff.out", "\u{e4}.out"]);
        let note = &found_here.notes.note;
        assert!(note.contains(r#""a\nb.out" was not kept: its name has a control character"#), "{note}");
        assert!(note.contains(r#""\u{1}\xff.out" was not kept: its name has a control character"#), "{note}");
        assert!(!note.contains("other") && !note.contains("c.out"), "{note}");
        assert_eq!([0, 1].map(|pattern| found_here.is_noted(pattern)), [true, false]);
        let note = found(&["**/c.out"]).notes.note;
        assert_eq!(note, r#""f\u{1}/c.out" was not kept: its name has a control character"#);
    }
}
