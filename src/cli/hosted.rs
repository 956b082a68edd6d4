//! A service for the time of one run, with everything that it writes in a folder of its own.
//!
//! It cannot outlive us: the supervisor ends when our end of its standard input is closed, also by a SIGKILL. Should the
//! supervisor be killed too, our guard ends what both have left.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::Session;
use super::exit::Failure;
use super::output::note;
use crate::shell::guard::{Guard, GuardError, GuardPlan};
use crate::shell::signals::Signals;
use crate::shell::supervisor::{AGENTS_MAX, GUEST_PREFIX, Launch, Launched};

pub(super) struct Host {
    endpoint: String,
    folder: PathBuf,
    service: Launched,
    guard: Guard,
}

impl Host {
    pub(super) fn start(session: &Session, signals: &mut Signals) -> Result<Self, Failure> {
        let agents = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let agents = u16::try_from(agents).unwrap_or(AGENTS_MAX).min(AGENTS_MAX);
        note(&format!("no controller runs here: starting one with {agents} agents for the time of this run"));
        let folder = make_folder().map_err(|error| Failure::failed(format!("cannot make a folder: {error}")))?;
        let guard = GuardPlan::new(session.config_file())
            .map(|plan| plan.of_a_guest(folder.clone(), environment(&folder)))
            .map_err(GuardError::from)
            .and_then(|plan| plan.start())
            .inspect_err(|_| remove(&folder))
            .map_err(Failure::failed)?;
        let launch = Launch {
            config: session.config_file(),
            agents,
            guest: Some(folder.clone()),
            environment: environment(&folder),
        };
        let result = launch.start().and_then(|mut service| {
            let up = service.wait_up(signals, &folder)?;
            Ok((up, service))
        });
        match result {
            Ok((up, service)) => {
                up.warnings.iter().for_each(|warning| note(warning));
                Ok(Self { endpoint: up.controller, folder, service, guard })
            }
            Err(error) => {
                remove(&folder);
                guard.release();
                Err(Failure::failed(error))
            }
        }
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Stops the service and waits until nothing is left of it.
    pub(super) fn end(self, signals: &mut Signals) {
        if self.service.end(signals) {
            remove(&self.folder);
            self.guard.release();
        }
    }
}

/// Everything of the user's configuration holds, but for the places.
fn environment(folder: &Path) -> Vec<(&'static str, OsString)> {
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

fn make_folder() -> std::io::Result<PathBuf> {
    // An absolute path, whatever TMPDIR says: the service may be asked from another folder.
    let base = std::path::absolute(std::env::temp_dir())?;
    let folder = base.join(format!("{GUEST_PREFIX}{}-{:016x}", std::process::id(), rand::random::<u64>()));
    // Nobody else may look into it, or have made it before us.
    let private = |path: &Path| DirBuilder::new().mode(0o700).create(path);
    private(&folder)?;
    private(&folder.join("log"))?;
    Ok(folder)
}

/// Mostly the supervisor has removed it.
fn remove(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
}
