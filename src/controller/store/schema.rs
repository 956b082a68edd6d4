//! The tables of the store, and the migration of files of older versions.

use std::path::Path;

use rusqlite::Connection;

use super::StoreError;

/// The version that this program writes, stored as `user_version` of the file.
const VERSION: i64 = 5;

/// The first version with step graphs.
const VERSION_WITH_GRAPHS: i64 = 4;

/// Marks the file as ours: "llts".
const APPLICATION: i64 = 0x6c6c_7473;

/// One statement for each version, applied to the previous one.
const MIGRATIONS: [&str; VERSION as usize] = [
    "
    CREATE TABLE tasks (
        micros       INTEGER PRIMARY KEY, -- the time in the id, in microseconds: the order of submission
        id           TEXT NOT NULL,
        status       TEXT NOT NULL,
        operation    TEXT NOT NULL,
        round        INTEGER NOT NULL,
        submitted_at INTEGER NOT NULL,    -- microseconds since 1970
        submitted    TEXT NOT NULL,       -- what the client sent, as JSON
        state        TEXT NOT NULL,       -- everything else, as JSON
        checksum     INTEGER NOT NULL
    ) STRICT;
",
    "
    CREATE TABLE settings (
        kind     TEXT NOT NULL, -- gate, drained, job or epoch
        name     TEXT NOT NULL, -- of the gate, the agent or the job
        value    TEXT NOT NULL, -- as JSON
        checksum INTEGER NOT NULL,
        PRIMARY KEY (kind, name)
    ) STRICT, WITHOUT ROWID;
",
    // Since this version a row of the settings may be that of a job, which earlier programs take for damage.
    "",
    "
    CREATE TABLE graphs (
        micros       INTEGER PRIMARY KEY, -- the time in the id, in microseconds: the order of submission
        id           TEXT NOT NULL,
        submitted_at INTEGER NOT NULL,    -- microseconds since 1970
        submitted    TEXT NOT NULL,       -- the fields beside the document, as JSON
        terms        TEXT NOT NULL,       -- the limits and defaults that it was accepted with, as JSON
        document     TEXT NOT NULL,       -- as the client sent it
        checksum     INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE graph_entries (
        graph    INTEGER NOT NULL, -- graphs.micros
        number   INTEGER NOT NULL, -- from 1, in the order of the events
        entry    TEXT NOT NULL,    -- as JSON
        checksum INTEGER NOT NULL,
        PRIMARY KEY (graph, number)
    ) STRICT, WITHOUT ROWID;
",
    // Since this version one row of the settings is that of the epoch.
    "",
];

pub(super) const PUT: &str = "
    INSERT INTO tasks (micros, id, status, operation, round, submitted_at, submitted, state, checksum)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
    ON CONFLICT (micros) DO UPDATE SET
        status = excluded.status, round = excluded.round, state = excluded.state, checksum = excluded.checksum
";

pub(super) const REMOVE: &str = "DELETE FROM tasks WHERE micros = ?1";

pub(super) const SET: &str = "INSERT OR REPLACE INTO settings (kind, name, value, checksum) VALUES (?1, ?2, ?3, ?4)";

pub(super) const UNSET: &str = "DELETE FROM settings WHERE kind = ?1 AND name = ?2";

pub(super) const GET_SETTINGS: &str = "SELECT kind, name, value, checksum FROM settings ORDER BY kind, name";

pub(super) const PUT_GRAPH: &str = "
    INSERT OR REPLACE INTO graphs (micros, id, submitted_at, submitted, terms, document, checksum)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
";

pub(super) const PUT_ENTRY: &str =
    "INSERT OR REPLACE INTO graph_entries (graph, number, entry, checksum) VALUES (?1, ?2, ?3, ?4)";

pub(super) const REMOVE_GRAPH: &str = "DELETE FROM graphs WHERE micros = ?1";

pub(super) const REMOVE_ENTRIES: &str = "DELETE FROM graph_entries WHERE graph = ?1";

pub(super) const GET_GRAPHS: &str =
    "SELECT micros, id, submitted_at, submitted, terms, document, checksum FROM graphs ORDER BY micros";

pub(super) const GET_ENTRIES: &str = "SELECT graph, number, entry, checksum FROM graph_entries ORDER BY graph, number";

pub(super) const GET_ALL: &str = "
    SELECT micros, id, status, operation, round, submitted_at, submitted, state, checksum FROM tasks ORDER BY micros
";

/// Migrates the file to this version, in one transaction. Returns whether a migration was necessary.
///
/// # Errors
/// When it is of a newer version, of another program, or damaged.
pub(super) fn migrate(connection: &Connection, path: &Path) -> Result<bool, StoreError> {
    let failed = |error| StoreError::of(path, error);
    let found = version(connection, path)?;
    if found == VERSION {
        return Ok(false);
    }
    let transaction = connection.unchecked_transaction().map_err(failed)?;
    let done = usize::try_from(found).unwrap_or_default();
    advance(&transaction, done).and_then(|()| transaction.commit()).map_err(failed)?;
    Ok(true)
}

/// Creates the tables in an empty file, within the caller's transaction.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    advance(connection, 0)
}

fn advance(connection: &Connection, done: usize) -> rusqlite::Result<()> {
    for migration in &MIGRATIONS[done..] {
        connection.execute_batch(migration)?;
    }
    connection.pragma_update(None, "application_id", APPLICATION)?;
    connection.pragma_update(None, "user_version", VERSION)
}

/// Checks the whole file. Returns whether its tables exist; they do not if its first start was interrupted.
///
/// # Errors
/// With the first defect.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<bool, StoreError> {
    if version(connection, path)? == 0 {
        return Ok(false);
    }
    let said: String = connection
        .pragma_query_value(None, "integrity_check", |row| row.get(0))
        .map_err(|error| StoreError::of(path, error))?;
    if said == "ok" { Ok(true) } else { Err(StoreError::Damaged { path: path.to_owned(), what: said }) }
}

/// Writes a page of the file without changing it.
pub(super) fn touch(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "user_version", VERSION)
}

/// Whether the file is of a version with step graphs. A reader does not migrate it.
///
/// # Errors
/// As [`version`].
pub(super) fn has_graphs(connection: &Connection, path: &Path) -> Result<bool, StoreError> {
    Ok(version(connection, path)? >= VERSION_WITH_GRAPHS)
}

pub(super) fn version(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let read = || Ok((number("application_id")?, number("user_version")?, number("schema_version")?));
    let (application, version, schema) = read().map_err(|error| StoreError::of(path, error))?;
    match (application, version, schema) {
        (APPLICATION, 1..=VERSION, _) => Ok(version),
        (APPLICATION, ..) => Err(StoreError::Newer { path: path.to_owned(), found: version, known: VERSION }),
        // No table was ever created in it.
        (0, 0, 0) => Ok(0),
        _ => Err(StoreError::Foreign { path: path.to_owned(), what: "a database of another program" }),
    }
}
