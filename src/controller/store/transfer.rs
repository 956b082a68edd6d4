//! Copies a queue, row by row, between the file in STATE_DIR and a server, while no controller uses either.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rusqlite::OpenFlags;

use super::rows::{Rows, set};
use super::{
    FILE, FileStore, ServerStore, StoreError, Tables, beside, checksum, connect, graphs, row_of, schema, settings,
    torn_at_for_reader,
};
use api::archives_dir::dir_in;
use api::config::{Durability, StoreSection};
use api::wire::graph::GraphRow;
use api::wire::record::Row;
use api::wire::requests::heartbeat;
use base::{Epoch, TaskRecord};
use proc::files::draft::{PRIVATE, replace};

/// All rows of a queue, as they are stored.
#[derive(Debug, Default)]
pub(super) struct AllRows {
    pub(super) tasks: Vec<Row>,
    /// Without the epoch.
    pub(super) settings: Vec<(&'static str, String, String)>,
    pub(super) graphs: Vec<GraphRow>,
    pub(super) entries: Vec<(i64, i64, String)>,
    pub(super) epoch: Option<Epoch>,
}

impl AllRows {
    /// Adds a setting, if it is as it was written.
    pub(super) fn take_setting(
        &mut self,
        path: &Path,
        kind: &str,
        name: String,
        value: Option<String>,
    ) -> Result<(), StoreError> {
        let damaged = || StoreError::Damaged {
            path: path.to_owned(),
            what: format!("the setting of {kind} {name:?} differs from what was written"),
        };
        let value = value.ok_or_else(damaged)?;
        match [settings::GATE, settings::DRAINED, settings::JOB].into_iter().find(|known| *known == kind) {
            Some(kind) => self.settings.push((kind, name, value)),
            None if kind == settings::EPOCH => self.epoch = heartbeat::decode_epoch(&value),
            None => return Err(damaged()),
        }
        Ok(())
    }

    /// Puts some of the tasks.
    pub(super) fn put_tasks<R: Rows>(rows: &mut R, tasks: &[Row]) -> Result<(), R::Error> {
        tasks.iter().try_for_each(|row| rows.put_task(row.clone(), checksum(row)))
    }

    /// Puts all rows that are not tasks.
    pub(super) fn put_rest<R: Rows>(&self, rows: &mut R) -> Result<(), R::Error> {
        for (kind, name, value) in &self.settings {
            set(rows, kind, name, Some(value.clone()))?;
        }
        for row in &self.graphs {
            rows.put_graph(row, graphs::checksum(row))?;
        }
        for (graph, number, entry) in &self.entries {
            rows.put_entry(*graph, *number, entry, graphs::checksum_of_entry(*graph, *number, entry))?;
        }
        Ok(())
    }
}

/// Copies the queue of a home into an empty store, with the archives and files. Returns the number of tasks. The copy gets a later
/// epoch, so that agents refuse the queue from which it was made.
///
/// # Errors
/// When the first one cannot be read, a controller leads one of them, or the second one has rows.
pub fn transfer(from: &StoreSection, to: &StoreSection, state_dir: &Path) -> Result<usize, StoreError> {
    let mut source = from.server.as_ref().map(|server| ServerStore::open(server, state_dir)).transpose()?;
    let rows = match &mut source {
        None => of_file(state_dir)?,
        Some(source) => {
            let rows = source.rows(state_dir)?;
            source.fetch_files(state_dir, &dir_in(state_dir))?;
            rows
        }
    };
    let tasks = rows.tasks.len();
    let copied = match &to.server {
        None => into_file(&rows, state_dir),
        Some(server) => ServerStore::open(server, state_dir).and_then(|mut store| store.take_rows(&rows, state_dir)),
    };
    if source.is_none() && copied.is_ok() {
        let path = state_dir.join(FILE);
        let noted = replace(&moved(&path), PRIVATE, |file| file.write_all(to.place(state_dir).as_bytes()));
        noted.map_err(|source| StoreError::Note { path, source })?;
    }
    if let Some(source) = &mut source {
        match &copied {
            Ok(()) => source.move_to(&to.place(state_dir))?,
            Err(_) => source.resign(),
        }
    }
    copied.map(|()| tasks)
}

/// The file that says that the queue of a store was copied, and where it goes on.
pub(super) fn moved(path: &Path) -> PathBuf {
    beside(path, ".moved")
}

fn occupied(path: &Path) -> StoreError {
    StoreError::Occupied { place: path.display().to_string(), remedy: "move that file away first" }
}

/// Refuses a file whose queue goes on elsewhere: its tasks would run twice.
pub(super) fn check_moved(path: &Path) -> Result<(), StoreError> {
    match fs::read_to_string(moved(path)) {
        Ok(to) if path.exists() => Err(StoreError::Moved { path: path.to_owned(), to, note: moved(path) }),
        _ => Ok(()),
    }
}

/// Copies the queue of a server into a new file, with the archives and files that are missing there, even while a controller leads
/// it.
///
/// # Errors
/// When the server does not answer, or the file cannot be written.
pub fn export(from: &StoreSection, state_dir: &Path, to: &Path) -> Result<(), StoreError> {
    let Some(server) = &from.server else { return super::copy(state_dir, &to.join(FILE)) };
    let mut source = ServerStore::open(server, state_dir)?;
    let rows = source.rows_beside_leader()?;
    source.fetch_files(state_dir, &dir_in(to))?;
    into_file(&rows, to)
}

/// Reads a queue without changing it, even while a controller uses it: each task, in the order of the ids. Returns their number.
///
/// # Errors
/// When it is damaged, or cannot be read.
pub fn inspect_at(
    store: &StoreSection,
    state_dir: &Path,
    mut each: impl FnMut(TaskRecord),
) -> Result<usize, StoreError> {
    match &store.server {
        None => super::inspect(state_dir, each),
        Some(server) => {
            let mut count = 0;
            ServerStore::open(server, state_dir)?.inspect(|record| {
                count += 1;
                each(record);
            })?;
            Ok(count)
        }
    }
}

fn of_file(state_dir: &Path) -> Result<AllRows, StoreError> {
    // Each row is looked at as a start would.
    super::inspect(state_dir, |_| {})?;
    let path = state_dir.join(FILE);
    torn_at_for_reader(&path)?;
    let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    let failed = |error| StoreError::of(&path, error);
    let mut all = AllRows::default();
    let mut statement = connection.prepare(schema::GET_ALL).map_err(failed)?;
    let mut rows = statement.query([]).map_err(failed)?;
    while let Some(found) = rows.next().map_err(failed)? {
        all.tasks.push(row_of(found).map_err(failed)?.0);
    }
    let mut taken = Ok(());
    let read = settings::read_rows(&connection, |kind, name, value| {
        if taken.is_ok() {
            taken = all.take_setting(&path, &kind, name, value);
        }
    });
    read.map_err(failed)?;
    taken?;
    if schema::has_graphs(&connection, &path)? {
        graphs::read_rows(&connection, |row, _| all.graphs.push(row)).map_err(failed)?;
        let entry =
            |graph, number, entry: Option<String>| all.entries.extend(entry.map(|entry| (graph, number, entry)));
        graphs::read_entries(&connection, entry).map_err(failed)?;
    }
    Ok(all)
}

fn into_file(rows: &AllRows, state_dir: &Path) -> Result<(), StoreError> {
    let path = state_dir.join(FILE);
    if moved(&path).exists() {
        if path.exists() {
            return Err(occupied(&path));
        }
        let _ = fs::remove_file(moved(&path));
    }
    let mut store = FileStore::open(state_dir, Durability::Disk)?;
    let failed = |error| StoreError::of(&path, error);
    let has_rows =
        "SELECT EXISTS (SELECT 1 FROM tasks) OR EXISTS (SELECT 1 FROM settings) OR EXISTS (SELECT 1 FROM graphs)";
    let is_taken: bool = store.connection.query_row(has_rows, [], |row| row.get(0)).map_err(failed)?;
    if is_taken {
        return Err(occupied(&path));
    }
    let mut write = || {
        let transaction = store.connection.transaction()?;
        {
            let mut tables = Tables::of(&transaction)?;
            AllRows::put_tasks(&mut tables, &rows.tasks)?;
            rows.put_rest(&mut tables)?;
        }
        transaction.commit()
    };
    write().map_err(failed)?;
    if let Some(Epoch { service, number }) = rows.epoch {
        store.adopt_epoch(state_dir, Epoch { service, number: number + 1 })?;
    }
    Ok(())
}
