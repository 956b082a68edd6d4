//! The folder of the history. A file belongs to the day that its name begins with.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::tables::{self, FileError};
use crate::history::rules::{Batch, Day};
use proc::sqlite::{ENDS, beside};

/// Name of the folder in `STATE_DIR`.
const NAME: &str = "history";

/// Characters of a date.
const DAY_LEN: usize = 10;

const SUFFIX: &str = ".sqlite";

/// End of the names of the files of earlier versions.
const OLD_SUFFIX: &str = ".llh";

/// In the names of files that were set aside, before a number.
const ASIDE: &str = ".aside-";

/// Rounds that are copied from a damaged file at once.
const COPIED_ROUNDS: usize = 4096;

/// The folder.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The folder in `STATE_DIR`.
    pub(super) fn of(state_dir: &Path) -> Self {
        Self { path: state_dir.join(NAME) }
    }

    fn create(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)
    }

    /// The names of the files, by their days.
    fn names(&self) -> io::Result<BTreeMap<Day, Vec<String>>> {
        let mut days = BTreeMap::<Day, Vec<String>>::new();
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(days),
            found => found?,
        };
        for entry in entries {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            let day = name.split_at_checked(DAY_LEN).filter(|(_, rest)| rest.starts_with('.'));
            if let Some(day) = day.and_then(|(day, _)| day.parse().ok()) {
                days.entry(day).or_default().push(name);
            }
        }
        Ok(days)
    }

    /// The days, each with the paths of the files that were set aside.
    pub(super) fn days(&self) -> io::Result<BTreeMap<Day, Vec<PathBuf>>> {
        let is_aside = |name: &&String| name.contains(ASIDE) && !ENDS[1..].iter().any(|end| name.ends_with(end));
        let aside = |names: Vec<String>| names.iter().filter(is_aside).map(|name| self.path.join(name)).collect();
        Ok(self.names()?.into_iter().map(|(day, names)| (day, aside(names))).collect())
    }

    /// The days with a file of an earlier version, from the first kept one.
    pub(super) fn old_days(&self, first_kept: Day) -> io::Result<Vec<Day>> {
        let mut days = self.names()?.split_off(&first_kept);
        days.retain(|_, names| names.iter().any(|name| name[DAY_LEN..] == *OLD_SUFFIX));
        Ok(days.into_keys().collect())
    }

    pub(super) fn path_of(&self, day: Day) -> PathBuf {
        self.path.join(format!("{day}{SUFFIX}"))
    }

    pub(super) fn old_path_of(&self, day: Day) -> PathBuf {
        self.path.join(format!("{day}{OLD_SUFFIX}"))
    }

    /// Gives a file that cannot be used another name, and returns that.
    pub(super) fn set_aside(&self, path: &Path) -> io::Result<PathBuf> {
        let name = |number: u32| beside(path, &format!("{ASIDE}{number}"));
        let aside = (1..).map(name).find(|name| !name.exists()).unwrap_or_else(|| name(0));
        // The log goes first, because SQLite removes one that has no file.
        for end in ENDS.iter().rev() {
            match fs::rename(beside(path, end), beside(&aside, end)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                renamed => renamed?,
            }
        }
        Ok(aside)
    }

    /// Removes the days before the first kept one, and then the oldest ones until all files together are within `bytes_max`. The
    /// present day stays. Returns the bytes that are left.
    pub(super) fn shrink(&self, first_kept: Day, today: Day, bytes_max: u64) -> io::Result<u64> {
        let size = |name: &String| fs::symlink_metadata(self.path.join(name)).map_or(0, |found| found.len());
        let days = self.names()?;
        let mut left: u64 = days.values().flatten().map(size).sum();
        for (day, mut names) in days {
            let is_too_much = left > bytes_max && day < today;
            if day >= first_kept && !is_too_much {
                continue;
            }
            left -= names.iter().map(size).sum::<u64>().min(left);
            // A log goes before its file: if this process is killed in between, the day is still found.
            names.sort_unstable_by(|one, other| other.cmp(one));
            names.iter().try_for_each(|name| fs::remove_file(self.path.join(name)))?;
            if day >= first_kept {
                log::info!(
                    "the history of {day} is removed: all files of the history take more than HISTORY_KEEP_BYTES_MAX"
                );
            }
        }
        Ok(left)
    }
}

/// Writes to the files.
#[derive(Debug)]
pub(super) struct Appender {
    folder: Folder,
    /// Whether written rows must survive a power failure.
    syncs: bool,
    open: Option<(Day, Connection)>,
}

impl Appender {
    pub(super) const fn new(folder: Folder, syncs: bool) -> Self {
        Self { folder, syncs, open: None }
    }

    /// Writes the rows of a day: all of them or none. Returns how many rounds were not there before. A file that cannot be used is set
    /// aside, and another one begins.
    pub(super) fn append(&mut self, day: Day, batch: &Batch) -> Result<usize, FileError> {
        match self.try_append(day, batch) {
            Err(error) if error.is_lasting() => {
                self.replace(day, &error)?;
                self.try_append(day, batch)
            }
            written => written,
        }
    }

    fn try_append(&mut self, day: Day, batch: &Batch) -> Result<usize, FileError> {
        let path = self.folder.path_of(day);
        // Rows that go into a removed file are lost.
        self.open.take_if(|(of, _)| *of != day || !path.exists());
        let connection = match &self.open {
            Some((_, connection)) => connection,
            None => {
                self.folder.create()?;
                &self.open.insert((day, tables::open_to_write(&path, self.syncs)?)).1
            }
        };
        let written = tables::put(connection, &batch.rounds, &batch.incidents);
        if written.is_err() {
            self.open = None;
        }
        Ok(written?)
    }

    /// Nothing can be added to the open file, as on a full disk, until it is opened again.
    #[cfg(test)]
    pub(super) fn fill(&self) {
        let (_, connection) = self.open.as_ref().expect("something was written");
        connection.pragma_update(None, "max_page_count", 1).expect("no less than it has");
    }

    /// Closes the open file, and with it the files that SQLite has beside it.
    pub(super) fn close(&mut self) {
        self.open = None;
    }

    /// Writes the log of the open file back, so that a power failure takes nothing of it.
    pub(super) fn settle(&self) -> Result<(), FileError> {
        if let Some((_, connection)) = &self.open {
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        }
        Ok(())
    }

    /// Replaces the file of a day if a row of it cannot be read.
    pub(super) fn repair(&mut self, day: Day) -> Result<(), FileError> {
        let read = tables::open_to_read(&self.folder.path_of(day))
            .and_then(|found| found.map_or(Ok(()), |source| tables::rounds(&source, "", [], |_| Ok(()))));
        match read {
            Err(error @ FileError::Damaged(_)) => self.replace(day, &error),
            read => read,
        }
    }

    /// Sets the file of a day aside, and copies its readable rows into another one: from the beginning up to the damage, and from
    /// the end back to it.
    pub(super) fn replace(&mut self, day: Day, why: &FileError) -> Result<(), FileError> {
        self.close();
        let path = self.folder.path_of(day);
        let aside = self.folder.set_aside(&path)?;
        let mut copied = 0;
        if let Ok(Some(source)) = tables::open_to_read(&aside) {
            for order in ["ASC", "DESC"] {
                let selection = format!("ORDER BY ended_at {order}, task {order}, round {order}");
                let mut batch = Batch::default();
                let read = tables::rounds(&source, &selection, [], |round| {
                    batch.rounds.push(round);
                    if batch.rounds.len() >= COPIED_ROUNDS {
                        copied += self.try_append(day, &batch)?;
                        batch.rounds.clear();
                    }
                    Ok(())
                });
                copied += self.try_append(day, &batch)?;
                if read.is_ok() {
                    break;
                }
            }
            let incidents = tables::incidents(&source, "", []).unwrap_or_default();
            self.try_append(day, &Batch { rounds: Vec::new(), incidents })?;
        }
        log::warn!(
            "{} cannot be used: {why}; it is kept as {}, and the {copied} rounds that can be read of it are copied",
            path.display(),
            aside.display()
        );
        Ok(())
    }
}
