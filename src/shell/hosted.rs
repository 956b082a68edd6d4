//! A service for the time of one command, with everything that it writes in a folder of its own.
//!
//! It cannot outlive us: the supervisor ends when our end of its standard input is closed, also by a SIGKILL. Should the
//! supervisor be killed too, our guard ends what both have left. When all three were killed, the next such command does, or
//! `llts up`, or `llts down`.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::endpoint::Address;
use super::guard::{Guard, GuardError, GuardPlan};
use super::removal;
use super::signals::Signals;
use super::supervisor::{
    GUEST_LOG, GUEST_PREFIX, GUEST_STATE, GUEST_WORK, GuestLock, Launch, LaunchError, Launched, Service,
};

/// The socket of the controller, in the folder of the service.
const SOCKET: &str = "socket";

/// What to host.
#[derive(Debug)]
pub struct HostPlan {
    /// The `llts` program.
    pub program: PathBuf,
    /// The home whose configuration and tools it has.
    pub home: PathBuf,
    /// Its configuration file, if one was named, as an absolute path. Everything in it holds, but for the places.
    pub config: Option<PathBuf>,
    /// How many agents; without any, tasks wait.
    pub agents: u16,
    /// How it is reached.
    pub way: Way,
    /// Variables beyond those of the places.
    pub environment: Vec<(&'static str, OsString)>,
}

/// How a hosted service is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By a socket in its folder, which is for its user only; no TCP port is opened. Where the path of the folder is too long for a
    /// socket, it is reached as by [`Way::Tcp`].
    Socket,
    /// By free ports of the loopback address.
    Tcp,
}

/// Why nothing is hosted. Nothing is left of the attempt.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Its folder cannot be made.
    #[error("cannot make a folder: {0}")]
    Folder(#[source] io::Error),
    /// It would not be guarded.
    #[error(transparent)]
    Guard(#[from] GuardError),
    /// It does not come up.
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

/// Why something of a hosted service is left.
#[derive(Debug, thiserror::Error)]
pub enum HostLeft {
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

/// A hosted service. Dropping it asks it to end; [`Host::end`] also waits.
#[derive(Debug)]
pub struct Host {
    up: Service,
    folder: PathBuf,
    launched: Launched,
    guard: Guard,
    /// While this is held, no other command takes the service for an abandoned one.
    _keeper: GuestLock,
}

impl HostPlan {
    /// Starts the service and waits until it is up. A signal asks it to stop again.
    ///
    /// # Errors
    /// [`HostError`]
    pub fn start(self, signals: &mut Signals) -> Result<Host, HostError> {
        let (folder, keeper) = make_folder().map_err(HostError::Folder)?;
        let mut environment = places(&folder, self.way);
        environment.extend(self.environment.iter().cloned());
        let guard = GuardPlan::new(self.program.clone(), self.config.clone())
            .at_home(&self.home)
            .of_a_guest(folder.clone(), environment.clone())
            .start()
            .inspect_err(|_| drop(removal::remove(&folder)))?;
        let Self { program, home, config, agents, .. } = self;
        let environment = environment.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let launch =
            Launch { program, home, config, agents, elsewhere: None, guest: Some(folder.clone()), environment };
        let result = launch.start().and_then(|mut launched| {
            let up = launched.wait_up(signals, &folder)?;
            Ok((up, launched))
        });
        match result {
            Ok((up, launched)) => Ok(Host { up, folder, launched, guard, _keeper: keeper }),
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

impl Host {
    /// What has come up.
    #[must_use]
    pub const fn up(&self) -> &Service {
        &self.up
    }

    /// The folder of all that it writes.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Stops the service and waits until nothing is left of it.
    ///
    /// # Errors
    /// When a part of its folder stays, such as what a tool has mounted in it; or when no process is left that would end the service:
    /// then [`supervisor::end_abandoned`](super::supervisor::end_abandoned) does.
    pub fn end(self, signals: &mut Signals) -> Result<(), HostLeft> {
        let Self { folder, launched, guard, .. } = self;
        if !launched.end(signals) {
            // Its guard ends the rest when we are gone.
            return if guard.is_gone() { Err(HostLeft::Keepers(folder)) } else { Ok(()) };
        }
        // Its guard goes on with what the supervisor has left there.
        if folder.exists() {
            return Err(HostLeft::Folder(folder));
        }
        guard.release();
        Ok(())
    }
}

fn places(folder: &Path, way: Way) -> Vec<(&'static str, OsString)> {
    let inside = |name: &str| folder.join(name).into_os_string();
    let socket = Address::Ipc(folder.join(SOCKET));
    let is_short = |address: &Address| Address::parse(&address.to_string()).is_ok();
    let mut places = vec![
        ("LLTS_CONTROLLER_IP", "127.0.0.1".into()),
        ("LLTS_PROMPT_HOSTED", "false".into()),
        ("LLTS_HTTP_ENABLED", "false".into()),
        ("LLTS_STATE_DIR", inside(GUEST_STATE)),
        ("LLTS_AGENT_WORK_DIR", inside(GUEST_WORK)),
        ("LLTS_LOG_DIR", inside(GUEST_LOG)),
    ];
    let port = if way == Way::Socket && is_short(&socket.of_broadcasts()) {
        places.push(("LLTS_CONTROLLER_IPC_FILE", inside(SOCKET)));
        "off"
    } else {
        "0"
    };
    places.extend(["LLTS_CONTROLLER_REP_PORT", "LLTS_CONTROLLER_PUB_PORT"].map(|key| (key, port.into())));
    places
}

fn make_folder() -> io::Result<(PathBuf, GuestLock)> {
    // An absolute path, whatever TMPDIR says: the service may be asked from another folder.
    let base = std::path::absolute(std::env::temp_dir())?;
    let folder = base.join(format!("{GUEST_PREFIX}{}-{:016x}", std::process::id(), rand::random::<u64>()));
    // Nobody else may look into it, or have made it before us.
    let private = |path: &Path| DirBuilder::new().mode(0o700).create(path);
    private(&folder)?;
    let keeper = GuestLock::make(&folder).and_then(|keeper| private(&folder.join(GUEST_LOG)).map(|()| keeper));
    match keeper {
        Ok(keeper) => Ok((folder, keeper)),
        Err(error) => {
            let _ = removal::remove(&folder);
            Err(error)
        }
    }
}

/// The supervisor removes the folder when nothing of the service is left. While it is there, its guard has something to do.
fn release(guard: Guard, folder: &Path) {
    if !folder.exists() {
        guard.release();
    }
}
