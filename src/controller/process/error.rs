//! Why a controller ends without a request to stop.

use std::error::Error;

use crate::archives::ArchivesError;
use crate::store::{CommitError, StoreError};
use proc::lock::LockError;
use zmtp::port::SocketError;

/// Why a controller cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// Another controller uses the same folder.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A port cannot be bound.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store has failed in a way that only a restart can repair.
    #[error("the store has failed; restart to see what it contains: {0}")]
    Commit(#[from] CommitError),
    /// Another controller leads the queue, or the server has lost a part of it.
    #[error("{0}; this controller has ended, and acknowledges nothing any more")]
    Deposed(String),
    /// A system that it is to host cannot start.
    #[error(transparent)]
    Guest(Box<dyn Error + Send + Sync>),
    /// The archives of tools cannot be used.
    #[error(transparent)]
    Archives(#[from] ArchivesError),
    /// The system refuses a basic resource.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}
