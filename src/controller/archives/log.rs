//! The pushed names, and those of the tools folder: a file to which a line is appended, and synced, for each change of what a name
//! stands for.
//!
//! A line that a crash has cut is not a change: the push was not confirmed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use api::wire::requests::tool::ToolLogRow;
use base::{HeldTool, ToolDigest, ToolName, ToolPaths, Wall};
use proc::files::draft::{PRIVATE, replace};

/// Bytes of the file beyond which its older lines are dropped at the start: some ten thousand changes.
const BYTES_MAX: usize = 4 << 20;

pub(super) struct PushLog {
    path: PathBuf,
    rows: Vec<ToolLogRow>,
    /// The pushed names.
    present: BTreeMap<ToolName, HeldTool>,
    /// The names for which the tools folder has an archive, with the moments since which they stand for it.
    in_folder: BTreeMap<ToolName, (ToolDigest, Wall)>,
}

impl PushLog {
    /// Reads the file, and repairs its end.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        let path = dir.join("log");
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let lines = text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
        let rows = lines.filter_map(|line| ToolLogRow::decode(line.trim_ascii_end())).collect();
        let mut log = Self { path, rows, present: BTreeMap::new(), in_folder: BTreeMap::new() };
        for row in log.rows.clone() {
            log.apply(&row);
        }
        if text.len() > BYTES_MAX || !text.is_empty() && !text.ends_with(b"\n") {
            log.shorten(text.len())?;
        }
        Ok(log)
    }

    /// Writes the file anew: without a torn line, and, if it is long, without the older half of the lines, except those that
    /// say what a name stands for.
    fn shorten(&mut self, bytes: usize) -> io::Result<()> {
        if bytes > BYTES_MAX {
            let half = self.rows.len() / 2;
            let rows = std::mem::take(&mut self.rows);
            let is_present = |row: &ToolLogRow| {
                if row.is_of_folder {
                    return row.digest.is_some_and(|digest| self.in_folder.get(&row.tool) == Some(&(digest, row.at)));
                }
                self.present.get(&row.tool).is_some_and(|held| held.at == row.at && Some(held.digest) == row.digest)
            };
            let kept = rows.into_iter().enumerate().filter(|(number, row)| *number >= half || is_present(row));
            self.rows = kept.map(|(_, row)| row).collect();
        }
        replace(&self.path, PRIVATE, |file| self.rows.iter().try_for_each(|row| writeln!(file, "{}", row.encode())))?;
        self.sync_folder()
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()
    }

    fn apply(&mut self, row: &ToolLogRow) {
        if row.is_of_folder {
            match row.digest {
                None => drop(self.in_folder.remove(&row.tool)),
                Some(digest) => drop(self.in_folder.insert(row.tool.clone(), (digest, row.at))),
            }
            return;
        }
        match row.digest {
            None => drop(self.present.remove(&row.tool)),
            Some(digest) => {
                let (name, size, at, by) = (row.tool.clone(), row.size, row.at, row.by.clone());
                self.present.insert(
                    row.tool.clone(),
                    HeldTool { name, digest, size, at, by, manifest: None, paths: ToolPaths::default() },
                );
            }
        }
    }

    /// Records a change.
    ///
    /// # Errors
    /// When it is not on the disk.
    pub(super) fn append(&mut self, row: ToolLogRow) -> io::Result<()> {
        let is_new = self.rows.is_empty();
        let mut file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
        let before = file.metadata()?.len();
        let written = file.write_all(format!("{}\n", row.encode()).as_bytes()).and_then(|()| file.sync_all());
        if let Err(error) = written {
            // The rest of a line would hide the next one.
            let _ = file.set_len(before);
            return Err(error);
        }
        if is_new {
            self.sync_folder()?;
        }
        self.apply(&row);
        self.rows.push(row);
        Ok(())
    }

    /// What each pushed name stands for.
    pub(super) fn present(&self) -> impl Iterator<Item = &HeldTool> {
        self.present.values()
    }

    /// What a pushed name stands for.
    pub(super) fn of(&self, tool: &ToolName) -> Option<&HeldTool> {
        self.present.get(tool)
    }

    /// The version for which the tools folder has made a name stand.
    pub(super) fn in_folder(&self, tool: &ToolName) -> Option<ToolDigest> {
        self.in_folder.get(tool).map(|(digest, _)| *digest)
    }

    /// The names that stand for archives of the tools folder.
    pub(super) fn names_in_folder(&self) -> impl Iterator<Item = &ToolName> {
        self.in_folder.keys()
    }

    /// The changes of a name, oldest first; at most `max` of the newest changes.
    pub(super) fn rows(&self, tool: &ToolName, max: usize) -> Vec<ToolLogRow> {
        let mut rows: Vec<_> = self.rows.iter().rev().filter(|row| row.tool == *tool).take(max).cloned().collect();
        rows.reverse();
        rows
    }
}
