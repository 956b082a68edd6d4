//! The durable store: one transaction for the records of one turn or of several, in an SQLite file in `STATE_DIR` ([`FileStore`])
//! or in a PostgreSQL server that several machines share ([`ServerStore`]).
//!
//! While the controller runs, its memory is the authority; the store is read at the start only. From then on [`Writer`]
//! owns it, on a thread of its own.
//!
//! A store that is damaged before its end is refused, and never silently shortened. Neither a log that SQLite would stop reading
//! too early ([`wal`]), nor one that was cut ([`promise`]), nor a row with a wrong checksum is accepted. [`Salvage`] makes a new
//! store from the readable rest.

mod backup;
mod checkpoint;
mod epoch;
mod error;
mod graphs;
mod place;
mod power_cuts;
mod promise;
mod repair;
mod rows;
mod schema;
#[cfg_attr(not(feature = "postgres"), path = "store/no_server.rs")]
mod server;
mod settings;
mod transfer;
mod wal;
mod writer;

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use rusqlite::hooks::Wal;
use rusqlite::{CachedStatement, Connection, OpenFlags, params};

use self::backup::copy;
pub use self::backup::copy_database;
use self::checkpoint::Checkpointer;
pub use self::error::{CommitError, StoreError};
pub use self::place::{Queue, Store};
use self::promise::{Cut, Promise, Teller};
pub use self::repair::Salvage;
use self::rows::Rows;
pub use self::server::{Keeper, Leader, ServerStore};
pub use self::transfer::{export, inspect_at, transfer};
use self::wal::LogEnd;
pub use self::writer::{Outcome, Writer};
use api::config::Durability;
use api::wire::graph::GraphRow;
use api::wire::record;
use api::wire::record::{Encoder, Row};
use api::wire::rules::Rules;
use base::{Phase, TaskRecord};
use engine::{Record, Stored};
use proc::sqlite::{ENDS, beside};

/// The name of its file in STATE_DIR.
pub const FILE_NAME: &str = "tasks.sqlite";

/// Name of the file in `STATE_DIR`.
const FILE: &str = FILE_NAME;

/// Accessible to its user only.
const PRIVATE_MODE: u32 = 0o600;

/// Number of rows after which the log is written back: some MiB of log, so that a start has little to read twice.
const CHECKPOINT_ROWS: usize = 2_000;

/// The open store of a running controller.
#[derive(Debug)]
pub struct FileStore {
    connection: Connection,
    checkpointer: Checkpointer,
    promise: Promise,
    /// `None` with `DURABILITY = "process"`: then the log may be older than the note after a power failure.
    teller: Option<Teller>,
    encoder: Encoder,
    rows_since_checkpoint: usize,
}

impl FileStore {
    /// Opens the store of a folder, creating it if it is missing.
    ///
    /// # Errors
    /// When it is damaged, of a newer version, or cannot be written. It is never replaced by an empty one.
    pub fn open(state_dir: &Path, durability: Durability) -> Result<Self, StoreError> {
        let path = state_dir.join(FILE);
        check_length(&path)?;
        transfer::check_moved(&path)?;
        finish_repair(state_dir)?;
        let torn_at = torn_at(&path)?;
        if let Some(offset) = torn_at {
            log::warn!(
                "the last commit in the log of {} is not whole, from byte {offset} on: it is left out",
                path.display()
            );
        }
        power_cuts::expect(&path, durability == Durability::Process)
            .map_err(|source| StoreError::Note { path: path.clone(), source })?;
        keep_private(&path);
        let mut connection = connect(&path, OpenFlags::default())?;
        let promise = Promise::new(&path);
        let set_up = || {
            connection.pragma_update(None, "journal_mode", "wal")?;
            let synchronous = match durability {
                Durability::Disk => "full",
                // The log reaches the kernel with each commit, but the disk only with each checkpoint.
                Durability::Process => "normal",
            };
            connection.pragma_update(None, "synchronous", synchronous)?;
            connection.pragma_update(None, "wal_autocheckpoint", 0)?;
            if torn_at.is_some() {
                promise.withdraw();
                // The bytes after the torn place must not look like commits when this log grows beyond it.
                connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            }
            Ok(())
        };
        set_up().map_err(|error| StoreError::of(&path, error))?;
        if schema::migrate(&connection, &path)? {
            // Written into the file itself before any task: a log that is lost or truncated later must not make it look
            // like a new one.
            promise.withdraw();
            let written = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            written.map_err(|error| StoreError::of(&path, error))?;
        }
        let checkpointer = Checkpointer::start(connect(&path, OpenFlags::default())?, promise.clone())?;
        let teller = match durability {
            Durability::Disk => Some(tell_ends(&mut connection, &path)?),
            Durability::Process => None,
        };
        Ok(Self { connection, checkpointer, promise, teller, encoder: Encoder::default(), rows_since_checkpoint: 0 })
    }

    /// Stores a turn: all of it or nothing.
    ///
    /// # Errors
    /// [`CommitError::Later`] when it may succeed later, for example after a full disk; no record of the turn is stored
    /// then.
    /// [`CommitError::Fatal`] when the contents of the disk are unknown.
    pub fn commit<'a>(&mut self, records: impl IntoIterator<Item = &'a Record>) -> Result<(), CommitError> {
        let mut count = 0;
        let store = || {
            let transaction = self.connection.transaction()?;
            {
                let mut tables = Tables::of(&transaction)?;
                for record in records {
                    count += 1;
                    rows::write(&mut tables, &mut self.encoder, record)?;
                }
            }
            if count == 0 {
                // To find out whether the store can be written again, this writes a page without changing it.
                schema::touch(&transaction)?;
            }
            transaction.commit()
        };
        store().map_err(CommitError::from)?;
        if let Some(teller) = &mut self.teller {
            teller.tell();
        }
        self.rows_since_checkpoint += count;
        Ok(())
    }

    /// Starts writing the log back when it is long, and notes its length; call it between two commits.
    ///
    /// A log that is written back completely starts over at its beginning: its file stops growing, and a commit does not
    /// change its size.
    pub fn keep_log_short(&mut self) {
        self.promise.keep_ahead();
        if self.checkpointer.take_end() {
            checkpoint::run(&self.connection, &self.promise);
        }
        if self.rows_since_checkpoint >= CHECKPOINT_ROWS {
            self.rows_since_checkpoint = 0;
            self.checkpointer.wake();
        }
    }

    /// All stored data, the tasks in the order of their ids. An earlier version did not store the agreed policy; its
    /// unfinished tasks are stored again with the present configuration, and keep that from then on.
    ///
    /// # Errors
    /// When a row differs from what was written.
    pub fn load(&mut self, rules: &Rules) -> Result<Stored, StoreError> {
        let mut stored = Stored::default();
        let mut without_terms = Vec::new();
        let path = path_of(&self.connection);
        settings::read(&self.connection, &path, &mut stored)?;
        graphs::read(&self.connection, &path, rules, &mut stored)?;
        read(&self.connection, &path, rules, |record, has_terms| {
            if !has_terms && record.phase() < Phase::Finished {
                without_terms.push(Record::Put(Box::new(record.clone())));
            }
            stored.tasks.push(record);
        })?;
        if !without_terms.is_empty()
            && let Err(error) = self.commit(&without_terms)
        {
            // Each is stored again with its next change.
            log::warn!("the policies of {} tasks cannot be stored yet: {error}", without_terms.len());
        }
        Ok(stored)
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        // The last connection that is closed writes the log back and removes it.
        self.promise.withdraw();
    }
}

/// Reads the store of a folder without changing it, even while a controller runs: each task, in the order of the ids. Checks the
/// whole file first. Returns the number of tasks.
///
/// # Errors
/// When there is no store, or it is damaged or of a newer version.
pub fn inspect(state_dir: &Path, mut each: impl FnMut(TaskRecord)) -> Result<usize, StoreError> {
    let path = state_dir.join(FILE);
    if repair::is_unfinished(state_dir) {
        let what = "a repair was cut short when the new store was whole; the next start finishes it".to_owned();
        return Err(StoreError::Damaged { path, what });
    }
    torn_at_for_reader(&path)?;
    let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    if !schema::check(&connection, &path)? {
        return Ok(0);
    }
    let rules = Rules::of_history();
    if schema::has_graphs(&connection, &path)? {
        // An entry that is not one of its graph is damage, like a row with a wrong checksum.
        graphs::read(&connection, &path, &rules, &mut Stored::default())?;
    }
    let mut count = 0;
    read(&connection, &path, &rules, |record, _| {
        count += 1;
        each(record);
    })?;
    Ok(count)
}

/// Checks that the store of a folder is not of a newer version than this program knows, even while a controller runs. A store that
/// is missing will be made.
///
/// # Errors
/// When it is of a newer version, or cannot be read.
pub fn check_version(state_dir: &Path) -> Result<(), StoreError> {
    let path = state_dir.join(FILE);
    if !path.exists() {
        return Ok(());
    }
    let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    schema::version(&connection, &path).map(drop)
}

/// Finishes an interrupted repair whose only remaining step is to put the new store in place.
///
/// # Errors
/// When the disk fails.
pub fn finish_repair(state_dir: &Path) -> Result<(), StoreError> {
    let path = state_dir.join(FILE);
    if let Some(kept) = repair::finish(state_dir).map_err(|source| StoreError::repair(&path, source))? {
        log::warn!("the repair of {} is finished; the damaged store is kept in {}", path.display(), kept.display());
    }
    Ok(())
}

/// Bytes of all files of the store.
#[must_use]
pub fn bytes(state_dir: &Path) -> u64 {
    let path = state_dir.join(FILE);
    // The log has holes.
    let size = |end| fs::metadata(beside(&path, end)).map_or(0, |about| about.len().min(512 * about.blocks()));
    ENDS.into_iter().map(size).sum()
}

/// Lets SQLite report the length of the log with each commit.
fn tell_ends(connection: &mut Connection, path: &Path) -> Result<Teller, StoreError> {
    let noted = Teller::new(path).map_err(|source| StoreError::Note { path: path.to_owned(), source })?;
    let frames = noted.frames();
    let note = move |_: &mut Wal, count| {
        frames.store(u64::try_from(count).unwrap_or_default(), Ordering::Relaxed);
        Ok(())
    };
    connection.wal_hook(Some(note)).map_err(|error| StoreError::of(path, error))?;
    Ok(noted)
}

/// The offset at which the last commit of the log is truncated, if it is.
///
/// # Errors
/// When the log is damaged before its end, or its store is missing: SQLite would read less than was accepted.
fn torn_at(path: &Path) -> Result<Option<u64>, StoreError> {
    let log = log_of(path);
    let failed = |source| StoreError::Log { path: log.clone(), source };
    let damaged = |what| Err(StoreError::Damaged { path: path.to_owned(), what });
    if let Some(Cut { length, promised }) = promise::cut(path).map_err(failed)? {
        return damaged(format!(
            "its log {} has {length} bytes and had {promised}: it was cut, and accepted tasks may be lost",
            log.display()
        ));
    }
    let told = promise::told(path).map_err(failed)?;
    let end = wal::end_of(&log, told).map_err(failed)?;
    if end != LogEnd::Whole || log.metadata().is_ok_and(|log| log.len() > 0) {
        // SQLite would remove such a log.
        if !path.try_exists().map_err(failed)? {
            return damaged(format!("the file is not there, but its log {} is", log.display()));
        }
    }
    match end {
        LogEnd::Whole => Ok(None),
        LogEnd::Torn(offset) => Ok(Some(offset)),
        LogEnd::Damaged(offset) if power_cuts::happened(path).map_err(failed)? => Ok(Some(offset)),
        LogEnd::Damaged(offset) => damaged(format!(
            "its log {} differs from what was written at byte {offset} or in the page after it, and accepted tasks follow",
            log.display()
        )),
    }
}

/// Like [`torn_at`], while a controller may be writing: only damage that is found twice counts.
fn torn_at_for_reader(path: &Path) -> Result<(), StoreError> {
    let mut before = None;
    loop {
        match torn_at(path) {
            Err(error @ StoreError::Damaged { .. }) => {
                let said = error.to_string();
                if before.replace(said.clone()) == Some(said) {
                    return Err(error);
                }
            }
            looked => return looked.map(drop),
        }
    }
}

/// Makes the store readable for its user only, because its parameters and outputs may be secret. SQLite gives the files
/// beside it the same permissions.
fn keep_private(path: &Path) {
    // If this fails, SQLite fails as well, and reports why.
    let _ = File::options().append(true).create(true).mode(PRIVATE_MODE).open(path);
    for end in ENDS {
        let name = beside(path, end);
        let is_open = fs::metadata(&name).is_ok_and(|found| found.is_file() && found.mode() & 0o077 != 0);
        if let (true, Err(error)) = (is_open, fs::set_permissions(&name, Permissions::from_mode(PRIVATE_MODE))) {
            log::warn!("other users can read {}: {error}", name.display());
        }
    }
}

/// The longest path of a store that SQLite opens, with the ends of the files beside it.
const PATH_BYTES_MAX: usize = 500;

/// Refuses a longer path. SQLite would say only that it cannot open the file.
fn check_length(path: &Path) -> Result<(), StoreError> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let bytes = absolute.as_os_str().len();
    if bytes > PATH_BYTES_MAX { Err(StoreError::LongPath { path: absolute, bytes }) } else { Ok(()) }
}

/// The path of SQLite's log of a file.
fn log_of(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    Connection::open_with_flags(path, flags).map_err(|error| StoreError::of(path, error))
}

fn path_of(connection: &Connection) -> PathBuf {
    connection.path().unwrap_or(FILE).into()
}

/// The tables of the file, in a transaction.
struct Tables<'a> {
    connection: &'a Connection,
    put: CachedStatement<'a>,
    remove: CachedStatement<'a>,
}

impl<'a> Tables<'a> {
    fn of(connection: &'a Connection) -> rusqlite::Result<Self> {
        let (put, remove) = (connection.prepare_cached(schema::PUT)?, connection.prepare_cached(schema::REMOVE)?);
        Ok(Self { connection, put, remove })
    }
}

impl Rows for Tables<'_> {
    type Error = rusqlite::Error;

    fn put_task(&mut self, row: Row, checksum: u32) -> rusqlite::Result<()> {
        put_row(&mut self.put, &row, checksum)
    }

    fn remove_task(&mut self, micros: i64) -> rusqlite::Result<()> {
        self.remove.execute(params![micros]).map(drop)
    }

    fn set(&mut self, kind: &'static str, name: &str, value: Option<(String, u32)>) -> rusqlite::Result<()> {
        settings::put(self.connection, kind, name, value)
    }

    fn put_graph(&mut self, row: &GraphRow, checksum: u32) -> rusqlite::Result<()> {
        graphs::put(self.connection, row, checksum)
    }

    fn put_entry(&mut self, graph: i64, number: i64, entry: &str, checksum: u32) -> rusqlite::Result<()> {
        graphs::put_entry(self.connection, graph, number, entry, checksum)
    }

    fn remove_graph(&mut self, micros: i64) -> rusqlite::Result<()> {
        graphs::remove(self.connection, micros)
    }
}

fn put_row(put: &mut CachedStatement<'_>, row: &Row, checksum: u32) -> rusqlite::Result<()> {
    let Row { micros, id, status, operation, round, submitted_at, submitted, state } = row;
    put.execute(params![micros, id, status, operation, round, submitted_at, submitted, state, checksum])?;
    Ok(())
}

fn read(
    connection: &Connection,
    path: &Path,
    rules: &Rules,
    mut each: impl FnMut(TaskRecord, bool),
) -> Result<(), StoreError> {
    let failed = |error| StoreError::of(path, error);
    let mut statement = connection.prepare(schema::GET_ALL).map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    while let Some(found) = rows.next().map_err(failed)? {
        let (row, stored) = row_of(found).map_err(failed)?;
        each(task_of(&row, stored, path, rules)?, record::has_terms(&row));
    }
    Ok(())
}

/// The task of a row.
///
/// # Errors
/// [`StoreError::Damaged`], when the row differs from what was written.
fn task_of(row: &Row, stored: u32, path: &Path, rules: &Rules) -> Result<TaskRecord, StoreError> {
    let damaged = |what: String| StoreError::Damaged { path: path.to_owned(), what };
    if checksum(row) != stored {
        return Err(damaged(format!("the row of task {} does not have the checksum that it was written with", row.id)));
    }
    record::decode(row, rules).map_err(|error| damaged(error.to_string()))
}

fn row_of(row: &rusqlite::Row<'_>) -> rusqlite::Result<(Row, u32)> {
    let found = Row {
        micros: row.get(0)?,
        id: row.get(1)?,
        status: row.get(2)?,
        operation: row.get(3)?,
        round: row.get(4)?,
        submitted_at: row.get(5)?,
        submitted: row.get(6)?,
        state: row.get(7)?,
    };
    Ok((found, row.get(8)?))
}

/// SQLite has checksums in its log, but none in its file: a flipped bit would go unnoticed (docs/design/hazards.md, D3).
fn checksum(row: &Row) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for number in [row.micros, row.round, row.submitted_at] {
        hasher.update(&number.to_le_bytes());
    }
    let texts = [&row.id, &row.status, &row.operation, &row.submitted, &row.state];
    hash_texts(&mut hasher, texts.map(String::as_str));
    hasher.finalize()
}

/// Lengths are included, so that text cannot move from one field to the next unnoticed.
fn hash_texts<'a>(hasher: &mut crc32fast::Hasher, texts: impl IntoIterator<Item = &'a str>) {
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
}

#[cfg(test)]
mod tests;
