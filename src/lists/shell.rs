//! Task lists on disk (TDF2): the processes of server and worker, and the work of commands in the folders.
//!
//! | module | content |
//! |---|---|
//! | [`folders`] | the layout, and the moves before a list runs |
//! | [`keeper`] | the thread for results, and the moves after a list has run |
//! | [`server`] | the loop around the engine |
//! | `hosted` | the same server as a part of a controller, whose agents are one of its workers |
//! | [`worker`] | the loop of a worker; `runner` has its command |
//! | `repeat` | the duplicate of a failed task |
//! | [`orders`] | new tasks, repeated ones, and the removal of finished ones |
//! | [`view`] | what is in the folders |

pub mod folders;
mod hosted;
mod keeper;
pub mod orders;
mod recovery;
mod repeat;
mod runner;
pub mod server;
pub mod view;
pub mod worker;

pub use hosted::host;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use base::Wall;
use proc::lock::LockError;

/// The lock of a folder is `.lock` in it.
const LOCK: &str = "";

/// The facts that no file shows, for `status`.
const FACTS: &str = ".facts.json";

/// A file of `new/` that asks the server to form lists of all tasks.
const CLOSE: &str = ".close";

/// Why a server cannot start or continue, or a command cannot do its work.
#[derive(Debug, thiserror::Error)]
pub enum ListsError {
    /// A folder cannot be used.
    #[error("cannot use {path}: {source}", path = path.display())]
    Folder {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A task cannot be moved by a rename.
    #[error("{path} is on another file system than the folder around it; keep all states on one", path = .0.display())]
    OtherDevice(PathBuf),
    /// Another server has the folder.
    #[error(
        "another server of task lists already has {path}{}; stop it, or use another DIR",
        pid.map(|pid| format!(" (process {pid})")).unwrap_or_default(), path = path.display()
    )]
    InUse {
        /// The folder.
        path: PathBuf,
        /// Process id of that server, if known.
        pid: Option<u32>,
    },
    /// The folder cannot be locked.
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
    /// A controller with this folder takes no commands.
    #[error(
        "the task lists in {path} are commands, and ALLOW_COMMANDS = \"no\" takes none; set DIR in [lists] to \"\" or \
         ALLOW_COMMANDS to another value",
        path = .0.display()
    )]
    NoCommands(PathBuf),
    /// The name of the folder of the commands cannot be sent.
    #[error("the path {} is not UTF-8, so that no command of a list can run there; move the home", .0.display())]
    NoText(PathBuf),
    /// The folder of new tasks was removed while the server ran.
    #[error("{} has vanished", .0.display())]
    Vanished(PathBuf),
    /// The system refuses a basic resource.
    #[error("the server of task lists cannot continue: {0}")]
    System(#[from] io::Error),
}

/// The seconds of a moment, as files have them.
const fn seconds(wall: Wall) -> u64 {
    wall.micros() / 1_000_000
}
