//! The file of a day: an SQLite database with a table of rounds and one of incidents.
//!
//! Moments are microseconds since 1970; texts that do not apply are empty. The rounds are stored in the order of their ends,
//! because nearly every question names a time. A task and a round occur once, whatever is written again after a crash. There is no
//! other index: it would cost each round more than it saves the few questions about one task.

use std::borrow::Cow;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::types::Type;
use rusqlite::{Connection, OpenFlags, Params, Row, params};

use base::{FinishedRound, Incident, Round, TaskId, Wall, words};
use proc::sqlite::is_damage;

/// The version of the tables, stored as `user_version` of the file. It rises with each new column, outcome or kind.
const VERSION: i64 = 1;

/// Marks the file as ours: "llth".
const APPLICATION: i64 = 0x6c6c_7468;

const CREATE: &str = "
    CREATE TABLE rounds (
        ended_at      INTEGER NOT NULL, -- by the clock of the controller
        task          TEXT NOT NULL,    -- its id
        round         INTEGER NOT NULL, -- from 0
        is_last       INTEGER NOT NULL, -- 1 if no other round was to follow
        outcome       TEXT NOT NULL,    -- as on the wire: SUCCEEDED
        exit_code     INTEGER,          -- of the run, if there was one with a result
        tool          TEXT NOT NULL,
        command       TEXT NOT NULL,    -- its beginning, on one line
        job           TEXT NOT NULL,
        given_id      TEXT NOT NULL,
        agent         TEXT NOT NULL,
        host          TEXT NOT NULL,    -- address of the machine of the agent; empty for that of the controller
        submitted_at  INTEGER NOT NULL,
        waited_micros INTEGER NOT NULL, -- until an agent had it
        started_at    INTEGER,          -- by the clock of the agent
        ran_micros    INTEGER,
        line          TEXT NOT NULL,    -- why it did not succeed
        PRIMARY KEY (ended_at, task, round)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE incidents (
        at   INTEGER NOT NULL,
        kind TEXT NOT NULL,             -- as on the wire: AGENT_LOST
        text TEXT NOT NULL,
        UNIQUE (at, kind, text)
    ) STRICT;
";

const PUT_ROUND: &str = "
    INSERT INTO rounds (ended_at, task, round, is_last, outcome, exit_code, tool, command, job, given_id, agent, host, submitted_at,
        waited_micros, started_at, ran_micros, line)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
    ON CONFLICT DO NOTHING
";

const PUT_INCIDENT: &str = "INSERT INTO incidents (at, kind, text) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// It is not what this program has written.
    #[error("{0}")]
    Damaged(String),
    /// A later version of this program has written it.
    #[error("it has version {0}, and this program knows up to {VERSION}; use the newer program again")]
    Newer(i64),
    /// It cannot be read or written at present.
    #[error("{0}")]
    Unusable(String),
}

impl FileError {
    /// Whether the file stays like this, so that rows need another file.
    pub(super) const fn is_lasting(&self) -> bool {
        matches!(self, Self::Damaged(_) | Self::Newer(_))
    }
}

impl From<rusqlite::Error> for FileError {
    fn from(error: rusqlite::Error) -> Self {
        if is_damage(&error) { Self::Damaged(error.to_string()) } else { Self::Unusable(error.to_string()) }
    }
}

impl From<std::io::Error> for FileError {
    fn from(error: std::io::Error) -> Self {
        Self::Unusable(error.to_string())
    }
}

/// Opens a file for writing, and creates it if it is missing.
pub(super) fn open_to_write(path: &Path, syncs: bool) -> Result<Connection, FileError> {
    check_kind(path)?;
    // SQLite gives the files beside it the same permissions. A file that exists is not opened here, because closing it would release
    // the locks that other connections of this process have on it.
    let _ = File::options().append(true).create_new(true).mode(0o600).open(path);
    let connection = Connection::open_with_flags(path, OpenFlags::default())?;
    let is_ours = has_tables(&connection)?;
    // With a log, a reader does not keep the writer waiting, nor the writer a reader.
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", if syncs { "full" } else { "normal" })?;
    if !is_ours {
        let transaction = connection.unchecked_transaction()?;
        transaction.execute_batch(CREATE)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
        transaction.commit()?;
    }
    Ok(connection)
}

/// Opens a file for reading; `None` if there is none, or it has no tables yet.
pub(super) fn open_to_read(path: &Path) -> Result<Option<Connection>, FileError> {
    if !check_kind(path)? {
        return Ok(None);
    }
    // A connection that cannot write leaves the files beside it behind.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = |is_alone: bool| -> Result<Option<Connection>, FileError> {
        let connection = Connection::open_with_flags(path, flags)?;
        if is_alone {
            connection.pragma_update(None, "locking_mode", "exclusive")?;
        }
        Ok(if has_tables(&connection)? { Some(connection) } else { None })
    };
    match open(false) {
        // A full disk has no room for the file that readers and the writer share. A reader that is alone needs none.
        Err(FileError::Unusable(why)) => open(true).map_err(|_| FileError::Unusable(why)),
        opened => opened,
    }
}

/// Whether there is such a file. A FIFO without a writer would never be opened.
fn check_kind(path: &Path) -> Result<bool, FileError> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(true),
        Ok(_) => Err(FileError::Unusable(format!("{} is no regular file; remove it", path.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn has_tables(connection: &Connection) -> Result<bool, FileError> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    match (number("application_id")?, number("user_version")?, number("schema_version")?) {
        (APPLICATION, VERSION, _) => Ok(true),
        (APPLICATION, version, _) => Err(FileError::Newer(version)),
        // It was created, and nothing was written into it.
        (0, 0, 0) => Ok(false),
        _ => Err(FileError::Damaged("it is a database of another program".to_owned())),
    }
}

/// Writes rows: all of them or none. Returns how many rounds were not there before.
pub(super) fn put(
    connection: &Connection,
    rounds: &[FinishedRound<'_>],
    incidents: &[Incident],
) -> rusqlite::Result<usize> {
    let transaction = connection.unchecked_transaction()?;
    let mut added = 0;
    {
        let mut put = transaction.prepare_cached(PUT_ROUND)?;
        for round in rounds {
            added += put.execute(params![
                micros(round.ended_at),
                round.task.to_string(),
                round.round.0,
                round.is_last,
                words::round_outcome(round.outcome),
                round.exit_code,
                round.tool,
                round.command,
                round.job,
                round.given_id,
                round.agent,
                round.host,
                micros(round.submitted_at),
                micros_of(round.waited),
                round.started_at.map(micros),
                round.ran.map(micros_of),
                round.line,
            ])?;
        }
        let mut put = transaction.prepare_cached(PUT_INCIDENT)?;
        for Incident { at, kind, text } in incidents {
            put.execute(params![micros(*at), words::incident(*kind), text])?;
        }
    }
    transaction.commit()?;
    Ok(added)
}

/// Calls `each` with the rounds of a selection: the part of the statement behind `FROM rounds`.
pub(super) fn rounds(
    connection: &Connection,
    selection: &str,
    values: impl Params,
    mut each: impl FnMut(FinishedRound<'static>) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let sql = format!(
        "SELECT ended_at, task, round, is_last, outcome, exit_code, tool, command, job, given_id, agent, host, submitted_at,
            waited_micros, started_at, ran_micros, line FROM rounds {selection}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(values)?;
    while let Some(row) = rows.next()? {
        each(round(row)?)?;
    }
    Ok(())
}

fn round(row: &Row<'_>) -> rusqlite::Result<FinishedRound<'static>> {
    let text = |at| row.get::<_, String>(at).map(Cow::Owned);
    Ok(FinishedRound {
        ended_at: wall(row.get(0)?),
        task: task(row, 1)?,
        round: Round(row.get(2)?),
        is_last: row.get(3)?,
        outcome: meaning(row, 4, words::round_outcome_of)?,
        exit_code: row.get(5)?,
        tool: text(6)?,
        command: text(7)?,
        job: text(8)?,
        given_id: text(9)?,
        agent: text(10)?,
        host: text(11)?,
        submitted_at: wall(row.get(12)?),
        waited: duration(row.get(13)?),
        started_at: row.get::<_, Option<i64>>(14)?.map(wall),
        ran: row.get::<_, Option<i64>>(15)?.map(duration),
        line: text(16)?,
    })
}

/// The incidents of a selection: the part of the statement behind `FROM incidents`.
pub(super) fn incidents(
    connection: &Connection,
    selection: &str,
    values: impl Params,
) -> Result<Vec<Incident>, FileError> {
    let mut statement = connection.prepare_cached(&format!("SELECT at, kind, text FROM incidents {selection}"))?;
    let found = statement.query_map(values, |row| {
        Ok(Incident { at: wall(row.get(0)?), kind: meaning(row, 1, words::incident_of)?, text: row.get(2)? })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// The id of a task in a column.
pub(super) fn task(row: &Row<'_>, column: usize) -> rusqlite::Result<TaskId> {
    let failed = |error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error));
    row.get_ref(column)?.as_str()?.parse().map_err(failed)
}

/// The meaning of a word in a column.
pub(super) fn meaning<T>(row: &Row<'_>, column: usize, of: fn(&str) -> Option<T>) -> rusqlite::Result<T> {
    let failed = || rusqlite::Error::FromSqlConversionFailure(column, Type::Text, "an unknown word".into());
    of(row.get_ref(column)?.as_str()?).ok_or_else(failed)
}

/// A moment as the files have it.
pub(super) fn micros(at: Wall) -> i64 {
    i64::try_from(at.micros()).unwrap_or(i64::MAX)
}

fn micros_of(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// A moment of the files.
pub(super) fn wall(micros: i64) -> Wall {
    Wall::from_micros(u64::try_from(micros).unwrap_or_default())
}

/// A time as the files have it.
pub(super) fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

#[cfg(test)]
mod tests;
