//! Why a measurement has no result.

use std::io;

use api::config::TdfConfigError;
use api::tools::PackError;
use api::wire::client::ReplyError;
use controller::store::{CommitError, StoreError};
use service::ephemeral::EphemeralError;
use tdf::shell::{OpenError, RedisError};
use zmtp::port::SocketError;

/// Why a case could not be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// A signal was received.
    #[error("interrupted")]
    Interrupted,
    /// This machine lacks something that the case needs: the row says so.
    #[error("{0}")]
    Missing(String),
    /// The service could not be started.
    #[error(transparent)]
    Host(#[from] EphemeralError),
    /// A tool cannot be packed.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// The service refused what the case asked for.
    #[error(transparent)]
    Reply(#[from] ReplyError),
    /// The service, or a rival, does not answer, or gives an unexpected answer.
    #[error("{0}")]
    Unexpected(String),
    /// A store cannot be prepared.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A store cannot be prepared.
    #[error("cannot fill a store: {0}")]
    Commit(#[from] CommitError),
    /// The rival's database failed.
    #[error("cannot measure SQLite: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// Tasks in Redis cannot be worked with.
    #[error(transparent)]
    Redis(#[from] RedisError),
    /// Tasks in Redis cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A configuration of TDF is wrong.
    #[error(transparent)]
    TdfConfig(#[from] TdfConfigError),
    /// A plain command failed.
    #[error("cannot use Redis: {0}")]
    PlainRedis(#[from] redis::RedisError),
    /// A socket of libzmq failed.
    #[error("cannot use a socket: {0}")]
    Zmq(#[from] zmq::Error),
    /// A socket of llts failed.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The operating system refused an operation.
    #[error("cannot {what}: {source}")]
    Io {
        /// The operation that failed, as a verb.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

impl BenchError {
    pub(crate) fn io<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source: source.into() }
    }
}
