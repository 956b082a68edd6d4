//! A service for the time of one command, with everything that it writes in a folder of its own.
//!
//! It cannot outlive us: the supervisor ends when our end of its standard input is closed, also by a SIGKILL. Should the
//! supervisor be killed too, our guard ends what both have left.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::guard::{Guard, GuardError, GuardPlan};
use super::removal::{self, RemovalError};
use super::signals::Signals;
use super::supervisor::{GUEST_PREFIX, Launch, LaunchError, Launched, Service};

/// What to host.
#[derive(Debug)]
pub struct HostPlan {
    /// Its configuration file, if one was named. Everything in it holds, but for the places.
    pub config: Option<PathBuf>,
    /// How many agents; without any, tasks wait.
    pub agents: u16,
    /// Variables beyond those of the places.
    pub environment: Vec<(&'static str, OsString)>,
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

/// A hosted service. Dropping it asks it to end; [`Host::end`] also waits.
#[derive(Debug)]
pub struct Host {
    up: Service,
    folder: PathBuf,
    launched: Launched,
    guard: Guard,
}

impl HostPlan {
    /// Starts the service and waits until it is up. A signal asks it to stop again.
    ///
    /// # Errors
    /// [`HostError`]
    pub fn start(self, signals: &mut Signals) -> Result<Host, HostError> {
        let folder = make_folder().map_err(HostError::Folder)?;
        let mut environment = places(&folder);
        environment.extend(self.environment);
        let guard = GuardPlan::new(self.config.clone())
            .map(|plan| plan.of_a_guest(folder.clone(), environment.clone()))
            .map_err(GuardError::from)
            .and_then(|plan| plan.start())
            .inspect_err(|_| drop(removal::remove(&folder)))?;
        let launch = Launch { config: self.config, agents: self.agents, guest: Some(folder.clone()), environment };
        let result = launch.start().and_then(|mut launched| {
            let up = launched.wait_up(signals, &folder)?;
            Ok((up, launched))
        });
        match result {
            Ok((up, launched)) => Ok(Host { up, folder, launched, guard }),
            Err(error) => {
                let _ = removal::remove(&folder);
                guard.release();
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
    /// When a part of its folder stays, such as what a tool has mounted in it.
    pub fn end(self, signals: &mut Signals) -> Result<(), RemovalError> {
        if !self.launched.end(signals) {
            return Ok(());
        }
        // Mostly the supervisor has removed it.
        let removed = removal::remove_and_unmount(&self.folder);
        self.guard.release();
        removed
    }
}

fn places(folder: &Path) -> Vec<(&'static str, OsString)> {
    let inside = |name: &str| folder.join(name).into_os_string();
    vec![
        ("LLTS_CONTROLLER_IP", "127.0.0.1".into()),
        ("LLTS_CONTROLLER_REP_PORT", "0".into()),
        ("LLTS_CONTROLLER_PUB_PORT", "0".into()),
        ("LLTS_PROMPT_HOSTED", "false".into()),
        ("LLTS_STATE_DIR", inside("state")),
        ("LLTS_AGENT_WORK_DIR", inside("work")),
        ("LLTS_LOG_DIR", inside("log")),
    ]
}

fn make_folder() -> io::Result<PathBuf> {
    // An absolute path, whatever TMPDIR says: the service may be asked from another folder.
    let base = std::path::absolute(std::env::temp_dir())?;
    let folder = base.join(format!("{GUEST_PREFIX}{}-{:016x}", std::process::id(), rand::random::<u64>()));
    // Nobody else may look into it, or have made it before us.
    let private = |path: &Path| DirBuilder::new().mode(0o700).create(path);
    private(&folder)?;
    private(&folder.join("log"))?;
    Ok(folder)
}
