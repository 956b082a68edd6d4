//! Errors of a store, and their consequences for the service.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use proc::sqlite::is_damage;

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It is not what this program has written.
    #[error(
        "the store {} is damaged: {what}; restore a copy, or keep what can be read of it with `llts store repair`",
        .path.display()
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// The defect.
        what: String,
    },
    /// Another program has written it.
    #[error("{} is not a store of llts but {what}; move it away, or use another STATE_DIR", .path.display())]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// The kind of file that it is.
        what: &'static str,
    },
    /// A later version of this program has written it.
    #[error(
        "the store {} has version {found}; this program knows up to {known}: use the newer program again",
        .path.display()
    )]
    Newer {
        /// Path of the file.
        path: PathBuf,
        /// Version of the file.
        found: i64,
        /// Newest known version.
        known: i64,
    },
    /// It cannot be read or written.
    #[error("cannot use the store {}: {source}", .path.display())]
    Unusable {
        /// Path of the file.
        path: PathBuf,
        /// Error of SQLite.
        source: rusqlite::Error,
    },
    /// Its log cannot be read.
    #[error("cannot read the log {}: {source}", .path.display())]
    Log {
        /// Path of the log file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// SQLite cannot open it there.
    #[error("the path of the store has {bytes} bytes, and SQLite opens one of at most 500; name another folder with --home or STATE_DIR: {}", .path.display())]
    LongPath {
        /// The path.
        path: PathBuf,
        /// Its length.
        bytes: usize,
    },
    /// A note beside it, such as that on how its commits reach the disk, cannot be written.
    #[error("cannot write beside the store {}: {source}", .path.display())]
    Note {
        /// Path of the store.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// It cannot be repaired. No part of it is lost.
    #[error("cannot repair the store {}: {source}", .path.display())]
    Repair {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The server of the queue cannot be used.
    #[error("{0}")]
    Server(String),
    /// Its queue goes on elsewhere.
    #[error(
        "the queue of {} was copied to {to}, and goes on there: set STORE to that; to begin again with the file, remove {}",
        .path.display(), .note.display()
    )]
    Moved {
        /// Path of the file.
        path: PathBuf,
        /// The other store.
        to: String,
        /// The file that says so.
        note: PathBuf,
    },
    /// A copy would replace what is there.
    #[error("{place} has rows already, and a copy replaces nothing; {remedy}")]
    Occupied {
        /// The store.
        place: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The home has a queue that the server lacks.
    #[error(
        "{} has a queue of its own, which {place} lacks: copy it with `llts store copy sqlite URL`, the URL of an empty schema, or move the \
         file away",
        .path.display()
    )]
    LeftHere {
        /// The file.
        path: PathBuf,
        /// The server.
        place: String,
    },
    /// The program was built without it.
    #[error(
        "STORE names a PostgreSQL, and this program was built without it; build it with `cargo build --features postgres`, or set \
         STORE = \"sqlite\""
    )]
    WithoutServers,
    /// The thread for checkpoints cannot be started.
    #[error("cannot start the thread of the store: {0}")]
    Thread(#[from] std::io::Error),
}

impl StoreError {
    pub(super) fn repair(path: &Path, source: std::io::Error) -> Self {
        Self::Repair { path: path.to_owned(), source }
    }

    /// The meaning of an error of SQLite.
    pub(super) fn of(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        if is_damage(&source) {
            Self::Damaged { path, what: source.to_string() }
        } else {
            Self::Unusable { path, source }
        }
    }
}

/// Why a turn was not stored.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// No record of it is stored; it may be tried again.
    #[error("{0}")]
    Later(String),
    /// Either all of it is stored or none of it; it may be tried again.
    #[error("{0}")]
    Unknown(String),
    /// Another controller leads the queue.
    #[error("{0}")]
    Deposed(String),
    /// The contents of the disk are unknown: only a restart shows them.
    #[error("{0}")]
    Fatal(String),
}

impl From<rusqlite::Error> for CommitError {
    fn from(error: rusqlite::Error) -> Self {
        // After a failed fsync the kernel may have dropped the unwritten pages and marked them clean: a second fsync would
        // falsely succeed (docs/design/hazards.md, D5).
        let sync = [rusqlite::ffi::SQLITE_IOERR_FSYNC, rusqlite::ffi::SQLITE_IOERR_DIR_FSYNC];
        let extended = error.sqlite_error().map(|error| error.extended_code);
        let why = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::ReadOnly) => {
                Self::Later(why)
            }
            Some(ErrorCode::SystemIoFailure) if !extended.is_some_and(|code| sync.contains(&code)) => Self::Later(why),
            _ => Self::Fatal(why),
        }
    }
}
