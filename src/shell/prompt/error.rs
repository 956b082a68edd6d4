//! Why a prompt master cannot start or go on.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::shell::lock::LockError;

/// Why a prompt master cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// The root is not there.
    #[error("there is no folder {path}; make it, or name another one with --root-dir", path = .0.display())]
    NoRoot(PathBuf),
    /// A folder cannot be used.
    #[error("cannot use {path}: {source}", path = path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file cannot be moved by a rename.
    #[error(
        "{path} is on another file system than {other}, so that no file can be moved there at once; keep .tasks on one",
        path = .0.display(), other = .1.display()
    )]
    OtherDevice(PathBuf, PathBuf),
    /// Another master has the root.
    #[error(
        "another prompt master already has {path}{}; stop it, or use another --root-dir",
        pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(), path = path.display()
    )]
    InUse {
        /// The root.
        path: PathBuf,
        /// Its process, if it is known.
        pid: Option<u32>,
    },
    /// The root cannot be locked.
    #[error(transparent)]
    Lock(LockError),
    /// The port is taken, or the address is not ours.
    #[error("cannot listen on {address}: {source}; choose another port, or 0 for a free one")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The system refuses something that every process may have.
    #[error("the prompt master cannot go on: {0}")]
    System(#[from] io::Error),
}
