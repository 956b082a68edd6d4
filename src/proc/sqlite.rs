//! The common knowledge of store and history about SQLite: the names of its files, and the meaning of its errors.

use std::path::{Path, PathBuf};

use rusqlite::{Error, ErrorCode};

/// Suffixes of the files of a database: the file itself, its log, and the index of the log.
pub const ENDS: [&str; 3] = ["", "-wal", "-shm"];

/// The file beside another one whose name has this suffix.
pub fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Whether an error means that the file is damaged.
pub fn is_damage(error: &Error) -> bool {
    // This program writes no row with another type, and no text that is not UTF-8.
    let is_mistyped = matches!(
        error,
        Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..)
    );
    is_mistyped || matches!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}
