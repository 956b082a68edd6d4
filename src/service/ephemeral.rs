//! A service for the duration of one command, with all of its files in a folder of its own.
//!
//! It cannot outlive the command: the supervisor ends when its standard input is closed, even if the command dies of SIGKILL. If the
//! supervisor is killed too, the guard of the command ends the remains of both. If all three are killed, the next ephemeral command,
//! `llts up` or `llts down` cleans up.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::supervisor::{
    EPHEMERAL_LOG, EPHEMERAL_PREFIX, EPHEMERAL_STATE, EPHEMERAL_WORK, KeeperLock, Launch, LaunchError, Launched,
    Service,
};
use base::path_text;
use proc::files::removal;
use proc::guard::{Guard, GuardError, GuardPlan};
use proc::own_program::OwnProgram;
use proc::signals::Signals;
use proc::temp_dir::{TEMP_VARIABLE, temp_dir};

/// The socket of the controller, in the folder of the service.
const SOCKET: &str = "socket";

/// The parameters of a service.
#[derive(Debug)]
pub struct EphemeralPlan {
    /// The `llts` program.
    pub program: PathBuf,
    /// The home from which it takes its configuration and tools.
    pub home: PathBuf,
    /// Its configuration file, if one was named, as an absolute path. All of it applies, except for the folders and
    /// addresses.
    pub config: Option<PathBuf>,
    /// Number of agents; with 0, tasks wait.
    pub agents: u16,
    /// How clients reach it.
    pub way: Way,
    /// Further environment variables.
    pub environment: Vec<(&'static str, OsString)>,
}

/// How clients reach an ephemeral service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By a unix socket in its folder, which only its user can open; no TCP port is opened.
    Socket,
    /// By free ports of the loopback address.
    Tcp,
}

/// Why the service could not be started. No process or file of the attempt is left.
#[derive(Debug, thiserror::Error)]
pub enum EphemeralError {
    /// Its folder cannot be made.
    #[error("cannot make {}: {source}; {}", .folder.display(), advice())]
    Folder {
        /// Its path.
        folder: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The guard cannot be started.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// It did not come up.
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

/// Why parts of an ephemeral service are left.
#[derive(Debug, thiserror::Error)]
pub enum EphemeralLeftover {
    /// Its folder could not be removed.
    #[error(
        "{} stays: a process of a tool lives on, or something is mounted in it; unmount it, then remove the folder",
        .0.display()
    )]
    Folder(PathBuf),
    /// Its supervisor was killed, and so was the guard that would end the rest.
    #[error("the supervisor and the guard of the service in {} were killed", .0.display())]
    Keepers(PathBuf),
}

/// An ephemeral service. Dropping it asks it to end; [`EphemeralService::end`] also waits.
#[derive(Debug)]
pub struct EphemeralService {
    up: Service,
    folder: PathBuf,
    launched: Launched,
    guard: Guard,
    /// While this is held, no other command treats the service as abandoned.
    _keeper: KeeperLock,
}

impl EphemeralPlan {
    /// Starts the service and waits until it is up. A signal asks it to stop again.
    ///
    /// # Errors
    /// [`EphemeralError`]
    pub fn start(self, signals: &mut Signals) -> Result<EphemeralService, EphemeralError> {
        let (folder, keeper) = make_folder()?;
        let mut environment = places(&folder, self.way);
        environment.extend(self.environment.iter().cloned());
        let own = OwnProgram { path: self.program.clone(), home: self.home.clone(), config: self.config.clone() };
        let guard = GuardPlan::new(own)
            .of_an_ephemeral_service(folder.clone(), environment.clone())
            .start()
            .inspect_err(|_| drop(removal::remove(&folder)))?;
        let Self { program, home, config, agents, .. } = self;
        // A missing home may lie where nothing can be created, so nothing is created for it.
        let home = if home.is_dir() { home } else { folder.clone() };
        let environment = environment.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let ephemeral_dir = Some(folder.clone());
        let launch =
            Launch { program, home, config, agents, until_idle: false, elsewhere: None, ephemeral_dir, environment };
        let result = launch.start().and_then(|mut launched| {
            let up = launched.wait_up(signals, &folder)?;
            Ok((up, launched))
        });
        match result {
            Ok((up, launched)) => Ok(EphemeralService { up, folder, launched, guard, _keeper: keeper }),
            Err(error) => {
                if let LaunchError::Start(_) = error {
                    let _ = removal::remove(&folder);
                }
                release(guard, &folder);
                Err(error.into())
            }
        }
    }
}

impl EphemeralService {
    /// The running service.
    #[must_use]
    pub const fn up(&self) -> &Service {
        &self.up
    }

    /// The folder of all its files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Stops the service and waits until no part of it is left.
    ///
    /// # Errors
    /// When a part of its folder stays, such as a mount that a tool has left in it; or when no process is left that would
    /// end the service: then [`supervisor::end_abandoned`](super::supervisor::end_abandoned) does.
    pub fn end(self, signals: &mut Signals) -> Result<(), EphemeralLeftover> {
        let Self { folder, launched, guard, .. } = self;
        if !launched.end(signals) {
            // Its guard ends the rest when this process has ended.
            return if guard.is_gone() { Err(EphemeralLeftover::Keepers(folder)) } else { Ok(()) };
        }
        // Its guard continues with the remains of the supervisor.
        if folder.exists() {
            return Err(EphemeralLeftover::Folder(folder));
        }
        guard.release();
        Ok(())
    }
}

/// Advice to the user about the folder for temporary files.
fn advice() -> String {
    match std::env::var_os(TEMP_VARIABLE).filter(|value| !value.is_empty()) {
        Some(value) => {
            format!("the variable {TEMP_VARIABLE} is {value:?}: make that folder writable, or name another one with it")
        }
        None => format!("name a folder for temporary files with the variable {TEMP_VARIABLE}"),
    }
}

fn places(folder: &Path, way: Way) -> Vec<(&'static str, OsString)> {
    let inside = |name: &str| path_text(&folder.join(name)).into();
    let mut places = vec![
        ("LLTS_CONTROLLER_IP", "127.0.0.1".into()),
        ("LLTS_IDLE_STOP", "off".into()),
        ("LLTS_PROMPT_HOSTED", "false".into()),
        ("LLTS_HTTP_ENABLED", "false".into()),
        ("LLTS_LISTS_DIR", "".into()),
        // It has nothing to do with a queue shared with other homes.
        ("LLTS_STORE", "sqlite".into()),
        ("LLTS_STATE_DIR", inside(EPHEMERAL_STATE)),
        ("LLTS_AGENT_WORK_DIR", inside(EPHEMERAL_WORK)),
        ("LLTS_LOG_DIR", inside(EPHEMERAL_LOG)),
    ];
    let port = if way == Way::Socket {
        places.push(("LLTS_CONTROLLER_IPC_FILE", inside(SOCKET)));
        "off"
    } else {
        "0"
    };
    places.extend(["LLTS_CONTROLLER_REP_PORT", "LLTS_CONTROLLER_PUB_PORT"].map(|key| (key, port.into())));
    places
}

fn make_folder() -> Result<(PathBuf, KeeperLock), EphemeralError> {
    let name = format!("{EPHEMERAL_PREFIX}{}-{:016x}", std::process::id(), rand::random::<u64>());
    let folder = temp_dir().join(name);
    let failed = |source| EphemeralError::Folder { folder: folder.clone(), source };
    // No other user may read it, or may have made it before us.
    let private = |path: &Path| DirBuilder::new().mode(0o700).create(path);
    private(&folder).map_err(failed)?;
    let keeper = KeeperLock::make(&folder).and_then(|keeper| private(&folder.join(EPHEMERAL_LOG)).map(|()| keeper));
    match keeper {
        Ok(keeper) => Ok((folder, keeper)),
        Err(error) => {
            let _ = removal::remove(&folder);
            Err(failed(error))
        }
    }
}

/// The supervisor removes the folder when no part of the service is left. While the folder exists, the guard is needed.
fn release(guard: Guard, folder: &Path) {
    if !folder.exists() {
        guard.release();
    }
}
