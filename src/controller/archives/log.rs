//! The pushed names, and those of the tools folder: a file that gets a synced line for each change of the version that a name
//! stands for.
//!
//! A line that a crash has cut is not a change: the push was not confirmed.
//! Where there is a mirror, its lines count, and the file is a copy of them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::mirror::Mirrored;
use api::wire::requests::tool::ToolLogRow;
use base::{HeldTool, ToolName, ToolPaths};
use proc::files::draft::{PRIVATE, replace};

/// Maximum bytes of the file: some ten thousand changes. Beyond it, the older lines are dropped at the start.
const BYTES_MAX: usize = 4 << 20;

pub(super) struct PushLog {
    path: PathBuf,
    rows: Vec<ToolLogRow>,
    /// The pushed names.
    present: BTreeMap<ToolName, HeldTool>,
    /// The names for which a tools folder has an archive.
    in_folder: BTreeMap<ToolName, HeldTool>,
}

impl PushLog {
    /// Reads the file, and repairs its end. If there is a mirror, the mirror is read instead, and gets the lines of the file first
    /// if it had none.
    pub(super) fn open(dir: &Path, mirrored: Option<&mut Mirrored>) -> io::Result<Self> {
        let path = dir.join("log");
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let lines = text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
        let rows: Vec<_> = lines.filter_map(|line| ToolLogRow::decode(line.trim_ascii_end())).collect();
        let mut log = Self { path, rows, present: BTreeMap::new(), in_folder: BTreeMap::new() };
        let is_short = text.len() <= BYTES_MAX && (text.is_empty() || text.ends_with(b"\n"));
        let is_older = mirrored.map(|mirrored| log.follow(mirrored)).transpose()?.unwrap_or_default();
        for row in log.rows.clone() {
            log.apply(&row);
        }
        if !is_short || is_older {
            log.shorten(text.len())?;
        }
        Ok(log)
    }

    /// Takes the lines of the mirror, or gives it those of the file if it has none. Returns whether the file differs.
    fn follow(&mut self, mirrored: &mut Mirrored) -> io::Result<bool> {
        let lines = mirrored.log()?;
        if lines.is_empty() && mirrored.files().is_empty() {
            self.rows.iter().try_for_each(|row| mirrored.add_to_log(&row.encode()))?;
            return Ok(false);
        }
        let rows = lines.iter().filter_map(|line| ToolLogRow::decode(line.as_bytes())).collect();
        let before = std::mem::replace(&mut self.rows, rows);
        Ok(before != self.rows)
    }

    /// Writes the file anew: without a torn line, and, if it is long, without the older half of the lines, except those for
    /// versions that a name still stands for.
    fn shorten(&mut self, bytes: usize) -> io::Result<()> {
        if bytes > BYTES_MAX {
            let half = self.rows.len() / 2;
            let rows = std::mem::take(&mut self.rows);
            let is_present = |row: &ToolLogRow| {
                if row.is_of_folder {
                    return stands_for(self.in_folder.get(&row.tool), row);
                }
                stands_for(self.present.get(&row.tool), row)
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
        let names = if row.is_of_folder { &mut self.in_folder } else { &mut self.present };
        match row.digest {
            None => drop(names.remove(&row.tool)),
            Some(digest) => {
                let (name, size, at, by) = (row.tool.clone(), row.size, row.at, row.by.clone());
                let held = HeldTool { name, digest, size, at, by, manifest: None, paths: ToolPaths::default() };
                names.insert(row.tool.clone(), held);
            }
        }
    }

    /// Records a change.
    ///
    /// # Errors
    /// When it is not on the disk, or not in the mirror.
    pub(super) fn append(&mut self, row: ToolLogRow, mirrored: Option<&mut Mirrored>) -> io::Result<()> {
        match mirrored {
            None => self.write(&row)?,
            Some(mirrored) => {
                mirrored.add_to_log(&row.encode())?;
                // The change is made; the next start copies the lines anew.
                if let Err(error) = self.write(&row) {
                    log::warn!("cannot write to {}: {error}", self.path.display());
                }
            }
        }
        self.apply(&row);
        self.rows.push(row);
        Ok(())
    }

    fn write(&self, row: &ToolLogRow) -> io::Result<()> {
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
        Ok(())
    }

    /// The versions of all pushed names.
    pub(super) fn present(&self) -> impl Iterator<Item = &HeldTool> {
        self.present.values()
    }

    /// The version of a pushed name.
    pub(super) fn of(&self, tool: &ToolName) -> Option<&HeldTool> {
        self.present.get(tool)
    }

    /// The version that a name stands for because of a tools folder.
    pub(super) fn in_folder(&self, tool: &ToolName) -> Option<&HeldTool> {
        self.in_folder.get(tool)
    }

    /// The versions of all names that are in a tools folder.
    pub(super) fn of_folder(&self) -> impl Iterator<Item = &HeldTool> {
        self.in_folder.values()
    }

    /// The changes of a name, oldest first; at most `max` of the newest changes.
    pub(super) fn rows(&self, tool: &ToolName, max: usize) -> Vec<ToolLogRow> {
        let mut rows: Vec<_> = self.rows.iter().rev().filter(|row| row.tool == *tool).take(max).cloned().collect();
        rows.reverse();
        rows
    }
}

/// Whether a name has stood for the version of this row since the moment of the row.
fn stands_for(held: Option<&HeldTool>, row: &ToolLogRow) -> bool {
    held.is_some_and(|held| held.at == row.at && Some(held.digest) == row.digest)
}
