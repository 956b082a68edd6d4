//! Why a measurement has no result.

use std::io;

use llts::protocol::client::ReplyError;
use llts::shell::ephemeral::EphemeralError;
use llts::shell::store::{CommitError, StoreError};
use llts::shell::tools::PackError;
use llts::shell::transport::SocketError;

/// Why a case could not be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// A signal has come.
    #[error("interrupted")]
    Interrupted,
    /// Something that this case needs is not on this machine: the row says so.
    #[error("{0}")]
    Missing(String),
    /// No service to measure.
    #[error(transparent)]
    Host(#[from] EphemeralError),
    /// A tool cannot be packed.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// The service refused what the case asked for.
    #[error(transparent)]
    Reply(#[from] ReplyError),
    /// The service, or a rival, is silent or says something else.
    #[error("{0}")]
    Unexpected(String),
    /// A store cannot be prepared.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The same.
    #[error("cannot fill a store: {0}")]
    Commit(#[from] CommitError),
    /// The rival's database.
    #[error("cannot measure SQLite: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A socket of libzmq.
    #[error("cannot use a socket: {0}")]
    Zmq(#[from] zmq::Error),
    /// A transport of ours.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The system refuses something.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was being done, as a verb.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl BenchError {
    pub(crate) fn io<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source: source.into() }
    }
}
