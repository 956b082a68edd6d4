//! Why a controller ends without being told to.

use crate::shell::http::HttpError;
use crate::shell::lock::LockError;
use crate::shell::port::SocketError;
use crate::shell::prompt::PromptError;
use crate::shell::store::{CommitError, StoreError};
use crate::shell::trust::Untrusted;

/// Why a controller cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// Another one runs on the same folder.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// STATE_DIR is in the hands of others.
    #[error(transparent)]
    Folder(#[from] Untrusted),
    /// A port cannot be bound.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store has failed in a way that only a new start can mend.
    #[error("the store has failed, and only a new start shows what it holds: {0}")]
    Commit(#[from] CommitError),
    /// The prompt master that it is to host cannot start.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The HTTP door cannot be opened.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The system refuses something that every process may have.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}
