//! Why a prompt master cannot start or continue.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use proc::lock::LockError;
use zmtp::curve_keys::KeyError;

/// Why a prompt master cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// The root folder does not exist.
    #[error("there is no folder {path}; make it, or name another one with --root-dir", path = .0.display())]
    NoRoot(PathBuf),
    /// A folder cannot be used.
    #[error("cannot use {path}: {source}", path = path.display())]
    Folder {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file cannot be moved by a rename.
    #[error(
        "{path} is on another file system than {other}, so that no file can be moved there at once; keep .tasks on one",
        path = .0.display(), other = .1.display()
    )]
    OtherDevice(PathBuf, PathBuf),
    /// Another master uses the root.
    #[error(
        "another prompt master already has {path}{}; stop it, or use another --root-dir",
        pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(), path = path.display()
    )]
    InUse {
        /// The root.
        path: PathBuf,
        /// Process id of that master, if known.
        pid: Option<u32>,
    },
    /// The root cannot be locked.
    #[error(transparent)]
    Lock(LockError),
    /// The port is in use, or the address is not local.
    #[error("cannot listen on {address}: {source}; choose another port, or 0 for a free one")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The keys of this home cannot be used.
    #[error("cannot secure the prompt master: {0}")]
    Keys(KeyError),
    /// The system refuses a basic resource.
    #[error("the prompt master cannot continue: {0}")]
    System(#[from] io::Error),
}
