//! A copy of a database that another process may be writing.

use std::path::Path;

use rusqlite::OpenFlags;

use super::{FILE, StoreError, connect, torn_at_for_reader};

/// Copies the store of a folder into a new file: all commits up to one of them.
///
/// # Errors
/// When there is no store, it is damaged, or the file cannot be written.
pub(super) fn copy(state_dir: &Path, to: &Path) -> Result<(), StoreError> {
    let path = state_dir.join(FILE);
    torn_at_for_reader(&path)?;
    copy_database(&path, to)
}

/// Copies a database into a new file, as one reader sees it.
///
/// # Errors
/// When it cannot be read, or the file cannot be written.
pub fn copy_database(from: &Path, to: &Path) -> Result<(), StoreError> {
    let connection = connect(from, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    let copied = connection.execute("VACUUM INTO ?1", [to.to_string_lossy()]);
    copied.map_err(|error| StoreError::of(from, error)).map(drop)
}
