//! Why a controller ends without a request to stop.

use crate::shell::archives::ArchivesError;
use crate::shell::http::HttpError;
use crate::shell::lists::ListsError;
use crate::shell::lock::LockError;
use crate::shell::port::SocketError;
use crate::shell::prompt::PromptError;
use crate::shell::store::{CommitError, StoreError};
use crate::shell::tdf::pool::PoolError;
use crate::shell::trust::Untrusted;

/// Why a controller cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// Another controller uses the same folder.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Another user controls STATE_DIR.
    #[error(transparent)]
    Folder(#[from] Untrusted),
    /// A port cannot be bound.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store has failed in a way that only a restart can repair.
    #[error("the store has failed; restart to see what it contains: {0}")]
    Commit(#[from] CommitError),
    /// The prompt master that it is to host cannot start.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The task lists of the configuration cannot be served.
    #[error(transparent)]
    Lists(#[from] ListsError),
    /// It cannot work for the TDF namespace of the configuration.
    #[error(transparent)]
    Tdf(#[from] PoolError),
    /// The archives of tools cannot be used.
    #[error(transparent)]
    Archives(#[from] ArchivesError),
    /// The HTTP door cannot be opened.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The system refuses a basic resource.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}
