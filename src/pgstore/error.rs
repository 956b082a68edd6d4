//! What can go wrong, as sentences.

use std::io::ErrorKind;

use tokio_postgres::error::SqlState;

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration does not name a server that can be used.
    #[error("{key}: {what}")]
    Setting {
        /// The key.
        key: &'static str,
        /// The defect, and what to do.
        what: String,
    },
    /// The server cannot be reached, or lets no one in.
    #[error("cannot connect to {place}: {why}")]
    Connect {
        /// The server.
        place: String,
        /// The sentence of the server or the system.
        why: String,
    },
    /// The server refuses a statement.
    #[error("{place} says: {why}")]
    Refused {
        /// The server.
        place: String,
        /// Its sentence.
        why: String,
    },
    /// The connection has ended.
    #[error("the connection to {place} has ended: {why}")]
    Broken {
        /// The server.
        place: String,
        /// The sentence of the system.
        why: String,
    },
    /// No answer in time.
    #[error("{place} has not answered for {seconds} s")]
    Silent {
        /// The server.
        place: String,
        /// The time without an answer.
        seconds: u64,
    },
    /// A later version of this program has made the tables.
    #[error(
        "the tables in {place} have version {found}; this program knows up to {known}: use the newer program again"
    )]
    Newer {
        /// The server.
        place: String,
        /// Version of the tables.
        found: i32,
        /// Newest known version.
        known: i32,
    },
    /// The server has less than it had.
    #[error(
        "{place} is at commit {commits} of epoch {epoch}, and this machine has seen commit {seen_commits} of epoch {seen_epoch}: \
         it is an older copy, such as a replica that was promoted too early, and lacks what was accepted since. Bring the newer \
         server back, or accept the loss with `llts up --accept-loss`"
    )]
    Stale {
        /// The server.
        place: String,
        /// Its epoch.
        epoch: u64,
        /// Its commits.
        commits: i64,
        /// The epoch that this machine knows.
        seen_epoch: u64,
        /// The commits that it knows.
        seen_commits: i64,
    },
}

/// Why a commit was not made, or is not known to be.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// None of it is stored; it may be tried again.
    #[error("{0}")]
    Later(String),
    /// The answer is missing: all of it is stored or none. Trying again is safe.
    #[error("{0}")]
    Unknown(String),
    /// Another controller leads, or the server has lost commits: this one must end.
    #[error("{0}")]
    Deposed(String),
}

/// Whether the server has refused for the reason that the row of the leader is not as expected.
pub(crate) fn is_not_leading(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| code.code() == crate::schema::NOT_LEADING)
}

/// Whether the server itself has answered, so that nothing of the transaction is stored. One that ends may have made it.
pub(crate) fn is_answer(error: &tokio_postgres::Error) -> bool {
    let ends = [&SqlState::ADMIN_SHUTDOWN, &SqlState::CRASH_SHUTDOWN, &SqlState::QUERY_CANCELED];
    error.as_db_error().is_some_and(|answer| !ends.contains(&answer.code()))
}

/// What an error says, with what to do about those that an operator meets.
pub(crate) fn said(error: &tokio_postgres::Error) -> String {
    let Some(answer) = error.as_db_error() else {
        let mut text = error.to_string();
        let mut advice = "";
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !text.contains(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            let kind = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
            if let Some(ErrorKind::ConnectionRefused | ErrorKind::NotFound) = kind {
                advice = "; start the server, or correct STORE";
            }
            source = cause.source();
        }
        return text + advice;
    };
    let advice = match *answer.code() {
        SqlState::INVALID_PASSWORD => "; STORE_PASSWORD_FILE names the file with the password",
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            "; it is a replica: STORE has to name the primary, or be given `target_session_attrs=read-write`"
        }
        SqlState::INVALID_CATALOG_NAME => "; make it with `createdb`, or correct STORE",
        SqlState::DUPLICATE_PSTATEMENT | SqlState::INVALID_SQL_STATEMENT_NAME => {
            "; a pooler that changes connections is between: use its session mode, or the server itself"
        }
        SqlState::UNDEFINED_FUNCTION | SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME => {
            "; the tables of the queue are gone: restore the database, or a backup"
        }
        SqlState::DISK_FULL => "; make room on the disk of the server",
        SqlState::TOO_MANY_CONNECTIONS => "; raise its max_connections, or close other connections",
        SqlState::INSUFFICIENT_PRIVILEGE => {
            "; the user of STORE must be allowed to make and change the tables of STORE_SCHEMA"
        }
        SqlState::LOCK_NOT_AVAILABLE => "; another session holds a lock on the tables",
        _ => "",
    };
    format!("{} ({}){advice}", answer.message(), answer.code().code())
}
