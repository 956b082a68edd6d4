//! Making a new store from the readable parts of a damaged one.
//!
//! Every row has a checksum of its own, so a row is either intact or it is left out and reported. The rows come from an
//! image of the store: its file, with every page of its log laid over it, including those that SQLite would not reach. If
//! that image cannot be read to its end, missing rows come from an image that ends where the log is sound: older states.
//!
//! No file is overwritten. The new store is complete and on the disk, under [`REPAIRED`], before the damaged files are
//! moved into a folder of their own; the next start finishes a repair that is interrupted after that.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::graphs::Entries;
use super::wal::{Log, Opened};
use super::{FILE, StoreError, checksum, connect, graphs, log_of, put_row, row_of, schema, settings};
use api::wire::graph::GraphRow;
use api::wire::record::Row;

/// A complete store that must still replace the damaged one.
const REPAIRED: &str = "tasks.sqlite.repaired";

/// Scratch folder, in the folder of the store so that files can be renamed out of it.
const SCRATCH: &str = "repair.tmp";

/// The readable contents of a damaged store.
#[derive(Debug, Default)]
pub struct Salvage {
    rows: BTreeMap<i64, Row>,
    /// Ids, as far as they are readable, of damaged rows.
    damaged: BTreeMap<i64, String>,
    settings: BTreeMap<(String, String), String>,
    graphs: BTreeMap<i64, GraphRow>,
    entries: Entries,
    /// The unreadable parts, one phrase each.
    pub unreadable: Vec<String>,
    /// Ids of tasks of which only an earlier state is readable.
    pub outdated: Vec<String>,
}

/// The pages of the log that an image includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// All pages of the log, up to its last commit.
    All,
    /// The pages that SQLite would read.
    Sound,
}

impl Salvage {
    /// Reads everything that is readable, and changes nothing.
    ///
    /// # Errors
    /// When the store belongs to another program or a newer version, or the disk fails.
    pub fn read(state_dir: &Path) -> Result<Self, StoreError> {
        let path = state_dir.join(FILE);
        let scratch = Scratch::make(state_dir).map_err(|source| StoreError::repair(&path, source))?;
        let mut salvage = Self::default();
        for extent in [Extent::All, Extent::Sound] {
            let image = scratch.path("image.sqlite");
            lay_out(&path, &image, extent).map_err(|source| StoreError::repair(&path, source))?;
            if salvage.take_image(&image, &path, extent)? {
                break;
            }
        }
        // Another version of the row may be intact, and the damaged part may be its id.
        let lost = std::mem::take(&mut salvage.damaged).into_iter().filter(|(key, _)| !salvage.rows.contains_key(key));
        lost.collect::<Vec<_>>().into_iter().for_each(|(_, id)| salvage.note(format!("the row of task {id:?}")));
        Ok(salvage)
    }

    /// Number of readable tasks.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.rows.len()
    }

    /// Puts a store with the readable data in place of the damaged one, and returns the folder that keeps the latter.
    ///
    /// # Errors
    /// When the disk fails; the damaged store is still in place, or the next start finishes the repair.
    pub fn put_in_place(&self, state_dir: &Path) -> Result<PathBuf, StoreError> {
        let path = state_dir.join(FILE);
        let failed = |source| StoreError::repair(&path, source);
        let scratch = Scratch::make(state_dir).map_err(failed)?;
        let new = scratch.path("new.sqlite");
        self.write(&new).map_err(|source| StoreError::of(&new, source))?;
        let written = File::open(&new).and_then(|file| file.sync_all());
        written.and_then(|()| fs::rename(&new, state_dir.join(REPAIRED))).map_err(failed)?;
        finish(state_dir).map_err(failed)?.ok_or_else(|| failed(ErrorKind::NotFound.into()))
    }

    /// Adds everything in the image that is still missing. Returns whether all of it was readable.
    fn take_image(&mut self, image: &Path, path: &Path, extent: Extent) -> Result<bool, StoreError> {
        let before = self.unreadable.len() + self.damaged.len();
        let connection = connect(image, OpenFlags::default())?;
        match schema::version(&connection, path) {
            Ok(_) => {
                self.take_rows(&connection, extent);
                self.take_settings(&connection);
                self.take_graphs(&connection);
            }
            Err(StoreError::Damaged { what, .. }) => self.note(what),
            Err(other) => return Err(other),
        }
        Ok(self.unreadable.len() + self.damaged.len() == before)
    }

    fn note(&mut self, what: String) {
        if !self.unreadable.contains(&what) {
            self.unreadable.push(what);
        }
    }

    /// From the first row upwards, and from the last one downwards if something in between stops SQLite.
    fn take_rows(&mut self, connection: &Connection, extent: Extent) {
        let Err(error) = self.take_rows_in_order(connection, "ASC", extent) else { return };
        self.note(format!("a part of the tasks: {error}"));
        // It stops at the same place from the other side, which has been reported.
        let _ = self.take_rows_in_order(connection, "DESC", extent);
    }

    fn take_rows_in_order(&mut self, connection: &Connection, order: &str, extent: Extent) -> rusqlite::Result<()> {
        // This avoids the index of the key: the rows are stored in its order.
        let mut statement = connection.prepare(&format!("{} {order}", schema::GET_ALL.trim_end()))?;
        let mut rows = statement.query([])?;
        while let Some(found) = rows.next()? {
            match row_of(found) {
                Ok((row, stored)) if checksum(&row) == stored => {
                    let is_new = !self.rows.contains_key(&row.micros);
                    if is_new && extent == Extent::Sound {
                        self.outdated.push(row.id.clone());
                    }
                    if is_new {
                        self.rows.insert(row.micros, row);
                    }
                }
                Ok((row, _)) => drop(self.damaged.insert(row.micros, row.id)),
                Err(error) => self.note(format!("a row of a task: {error}")),
            }
        }
        Ok(())
    }

    fn take_settings(&mut self, connection: &Connection) {
        let mut unreadable = Vec::new();
        let read = settings::read_rows(connection, |kind, name, value| match value {
            Some(value) => {
                self.settings.entry((kind, name)).or_insert(value);
            }
            None => unreadable.push(format!("the setting of {kind} {name:?}")),
        });
        if let Err(error) = read {
            unreadable.push(format!("a part of the settings: {error}"));
        }
        unreadable.into_iter().for_each(|what| self.note(what));
    }

    fn take_graphs(&mut self, connection: &Connection) {
        let (mut unreadable, mut lost_entries) = (Vec::new(), 0);
        let read = graphs::read_rows(connection, |row, is_intact| {
            if is_intact {
                self.graphs.entry(row.micros).or_insert(row);
            } else {
                unreadable.push(format!("the row of graph {:?}", row.id));
            }
        });
        // A file of an earlier version has no such tables.
        let is_missing = |error: &rusqlite::Error| error.to_string().contains("no such table");
        let read = read.and_then(|()| {
            graphs::read_entries(connection, |graph, number, entry| match entry {
                Some(entry) => drop(self.entries.entry((graph, number)).or_insert(entry)),
                None => lost_entries += 1,
            })
        });
        if let Some(error) = read.err().filter(|error| !is_missing(error)) {
            unreadable.push(format!("a part of the graphs: {error}"));
        }
        if lost_entries > 0 {
            unreadable.push(format!("{lost_entries} entries of graphs"));
        }
        unreadable.into_iter().for_each(|what| self.note(what));
    }

    /// The graphs with the entries up to the first one that is missing: the later ones have no meaning without it.
    fn write_graphs(&self, connection: &Connection) -> rusqlite::Result<()> {
        for row in self.graphs.values() {
            graphs::put(connection, row, graphs::checksum(row))?;
            let of_graph = self.entries.range((row.micros, 0)..=(row.micros, i64::MAX)).zip(1..);
            for (((_, number), entry), _) in of_graph.take_while(|(((_, number), _), expected)| number == expected) {
                let checksum = graphs::checksum_of_entry(row.micros, *number, entry);
                graphs::put_entry(connection, row.micros, *number, entry, checksum)?;
            }
        }
        Ok(())
    }

    fn write(&self, path: &Path) -> rusqlite::Result<()> {
        let connection = Connection::open(path)?;
        let transaction = connection.unchecked_transaction()?;
        schema::create(&transaction)?;
        {
            let mut put = transaction.prepare_cached(schema::PUT)?;
            for row in self.rows.values() {
                put_row(&mut put, row, checksum(row))?;
            }
        }
        for ((kind, name), value) in &self.settings {
            let checksum = settings::checksum(kind, name, value);
            settings::put(&transaction, kind, name, Some((value.clone(), checksum)))?;
        }
        self.write_graphs(&transaction)?;
        transaction.commit()
    }
}

/// Whether a repair was interrupted after the new store was complete.
pub(super) fn is_unfinished(state_dir: &Path) -> bool {
    state_dir.join(REPAIRED).exists()
}

/// Finishes a repair that was interrupted after the new store was complete. Returns the folder of the damaged one, if there
/// was one.
///
/// # Errors
/// When the disk fails.
pub(super) fn finish(state_dir: &Path) -> io::Result<Option<PathBuf>> {
    let repaired = state_dir.join(REPAIRED);
    if !repaired.try_exists()? {
        return Ok(None);
    }
    let kept = make_folder(state_dir)?;
    for name in [FILE.to_owned(), format!("{FILE}-wal"), format!("{FILE}-shm")] {
        match fs::rename(state_dir.join(&name), kept.join(&name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    sync(&kept)?;
    sync(state_dir)?;
    fs::rename(repaired, state_dir.join(FILE))?;
    sync(state_dir)?;
    Ok(Some(kept))
}

/// `damaged-1`, or the first free number.
fn make_folder(state_dir: &Path) -> io::Result<PathBuf> {
    for number in 1_u32.. {
        let folder = state_dir.join(format!("damaged-{number}"));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|()| folder),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Makes a file that SQLite reads by itself: the store's own, with the pages of its log in place.
fn lay_out(path: &Path, image: &Path, extent: Extent) -> io::Result<()> {
    match fs::copy(path, image) {
        // All data may still be in the log.
        Err(error) if error.kind() == ErrorKind::NotFound => drop(File::create(image)?),
        copied => drop(copied?),
    }
    let wal = log_of(path);
    let Some(commit) = last_commit(&wal, extent)? else { return Ok(()) };
    let (Opened::Log(mut log) | Opened::BadHeader(mut log)) = Log::open(&wal)? else { return Ok(()) };
    let mut file = File::options().write(true).open(image)?;
    let page_bytes = log.page_bytes as u64;
    while let Some(frame) = log.next()? {
        if (frame.is_present || frame.is_sound) && frame.page > 0 && frame.page <= commit.pages {
            file.seek(SeekFrom::Start(u64::from(frame.page - 1) * page_bytes))?;
            file.write_all(&frame.data)?;
        }
        if frame.offset == commit.offset {
            break;
        }
    }
    file.set_len(u64::from(commit.pages) * page_bytes)
}

struct Commit {
    /// Offset of the frame that ends it.
    offset: u64,
    /// Pages of the file after it.
    pages: u32,
}

fn last_commit(wal: &Path, extent: Extent) -> io::Result<Option<Commit>> {
    let (Opened::Log(mut log) | Opened::BadHeader(mut log)) = Log::open(wal)? else { return Ok(None) };
    let mut last = None;
    while let Some(frame) = log.next()? {
        match extent {
            Extent::Sound if !frame.is_sound => break,
            Extent::All if !frame.is_present => {}
            Extent::Sound | Extent::All if frame.commit == 0 => {}
            Extent::Sound | Extent::All => last = Some(Commit { offset: frame.offset, pages: frame.commit }),
        }
    }
    Ok(last)
}

/// A folder for files of a repair. Dropping it removes them.
struct Scratch(PathBuf);

impl Scratch {
    /// Remains of a killed repair are overwritten.
    fn make(state_dir: &Path) -> io::Result<Self> {
        let folder = state_dir.join(SCRATCH);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let scratch = Self(folder);
        scratch.clear();
        Ok(scratch)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn clear(&self) {
        for name in ["image.sqlite", "new.sqlite"] {
            for end in ["", "-wal", "-shm", "-journal"] {
                // Most of them do not exist; a file that cannot be removed causes an error when it is written.
                let _ = fs::remove_file(self.path(&format!("{name}{end}")));
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.clear();
        let _ = fs::remove_dir(&self.0);
    }
}

#[cfg(test)]
mod tests;
