//! A supervisor becomes another version of its program ([`takeover`](proc::takeover)). Its children stay its children and
//! its lock stays held, so that no agent and no run notices.
//!
//! 1. `llts restart`, run by the new version, writes the request and signals the supervisor.
//! 2. The supervisor asks the program of the request whether it can read the configuration, the store and the [`Handover`]
//!    ([`is_ready`]). If not, everything stays as it is.
//! 3. The controller becomes the new program, for a trial ([`Plan::handle_try`](crate::plan::Plan::handle_try)). If it ends, the
//!    supervisor, still the old program, starts the old controller again. To the agents this is an ordinary restart of the controller. If
//!    the file of the old program was replaced meanwhile, a copy of the running one is used.
//! 4. The supervisor writes a [`Handover`] into memory, leaves the descriptors in it open, and becomes the new program, which adopts
//!    the children, and replaces the agents.
//! 5. If the new program cannot serve, it becomes the old one again ([`go_back`]), with the same children and the reason.
//! 6. If the new supervisor dies soon, a [`standby`](super::standby) of the old program starts the whole service again.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};

use crate::plan::Living;
use agent::process::AgentError;
use api::config::Config;
use api::service_file::Endpoints;
use api::trust;
use api::trust::{Part, Untrusted};
use base::{Role, path_of_text, path_text};
use controller::store;
use proc::signals::with_clean_mask;
use proc::takeover::descriptor;
use proc::{clock, readable, takeover};

/// The line with which a program says that it can take over from this version of the supervisor, and from every later version that writes
/// the same format.
pub const READINESS: &str = "llts supervisor takes over format 1";

/// A program that does not answer within this time is rejected. The supervisor fences no expired lease meanwhile.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The state of a supervisor, for the program that it becomes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Handover {
    /// The id of the restart request.
    pub(super) request: String,
    /// The descriptor of the lock of the service.
    lock: i32,
    /// The standard error of the old program, as a descriptor. Until the new program is proven, its own is a file in memory.
    #[serde(default)]
    stderr: Option<i32>,
    /// The command line that returns to the old program; the descriptor of a [`Handover`] is appended.
    #[serde(default)]
    before: Vec<String>,
    /// Why the new program has gone back to the old one.
    #[serde(default)]
    pub(super) failure: Option<String>,
    pub(super) endpoints: Option<Endpoints>,
    pub(super) socket_is_open: bool,
    /// Children that do not belong to the service.
    pub(super) strangers: Vec<i32>,
    /// Whether the controller already runs the new program.
    #[serde(default)]
    pub(super) is_proven: bool,
    children: Vec<Heir>,
}

/// A child that is handed over.
#[derive(Debug, Serialize, Deserialize)]
struct Heir {
    /// The number of an agent; `None` for the controller.
    agent: Option<u16>,
    pid: i32,
    /// The descriptors of its output pipes; `None` for one that has ended.
    out: Option<i32>,
    err: Option<i32>,
    is_ready: bool,
    /// When the lease of its run finally ends, in nanoseconds since the boot.
    lease: Option<u64>,
}

/// A child that was taken over.
#[derive(Debug)]
pub(super) struct Adopted {
    pub(super) living: Living,
    pub(super) pid: Pid,
    pub(super) out: Option<OwnedFd>,
    pub(super) err: Option<OwnedFd>,
}

/// A child that is to be handed over.
#[derive(Debug)]
pub(super) struct Given<'a> {
    pub(super) living: Living,
    pub(super) pid: Pid,
    pub(super) out: Option<BorrowedFd<'a>>,
    pub(super) err: Option<BorrowedFd<'a>>,
}

impl Handover {
    pub(super) fn new(request: String, lock: BorrowedFd<'_>, children: &[Given<'_>]) -> Self {
        let (mono, boot) = (clock::now().mono, clock::since_boot());
        let nanos = |lease| u64::try_from((boot + lease).as_nanos()).unwrap_or(u64::MAX);
        let heir = |child: &Given<'_>| Heir {
            agent: match child.living.role {
                Role::Controller => None,
                Role::Agent(number) => Some(number),
            },
            pid: child.pid.as_raw_nonzero().get(),
            out: child.out.map(|fd| fd.as_raw_fd()),
            err: child.err.map(|fd| fd.as_raw_fd()),
            is_ready: child.living.ready,
            lease: child.living.lease.map(|lease| nanos(lease.since(mono))),
        };
        Self {
            request,
            lock: lock.as_raw_fd(),
            stderr: None,
            before: Vec::new(),
            failure: None,
            endpoints: None,
            socket_is_open: false,
            strangers: Vec::new(),
            is_proven: false,
            children: children.iter().map(heir).collect(),
        }
    }

    /// Adds the way back: the standard error and the command line of this program.
    pub(super) fn with_way_back(mut self, stderr: BorrowedFd<'_>, before: &Command) -> Self {
        self.stderr = Some(stderr.as_raw_fd());
        self.before = std::iter::once(before.get_program())
            .chain(before.get_args())
            .map(|word| path_text(Path::new(word)))
            .collect();
        self
    }

    pub(super) fn lock(&self) -> io::Result<OwnedFd> {
        descriptor(self.lock)
    }

    /// Restores the standard error of the old program; call it once. Until then, it is that of the trial.
    pub(super) fn take_stderr(&self) -> io::Result<()> {
        if let Some(number) = self.stderr {
            nix::unistd::dup2_stderr(descriptor(number)?)?;
        }
        Ok(())
    }

    /// Turns this process back into the old program, which continues with the same children. Call it before any child is adopted. Returns
    /// only if that fails.
    ///
    /// # Errors
    /// The error of the system.
    pub(super) fn go_back(mut self, why: String) -> io::Error {
        let Some((program, arguments)) = self.before.split_first() else {
            return io::Error::other("the program before this one has left no way back");
        };
        let mut command = Command::new(path_of_text(program));
        command.args(arguments.iter().map(|word| path_of_text(word)));
        let numbers = [Some(self.lock), self.stderr].into_iter().flatten();
        let pipes = self.children.iter().flat_map(|child| [child.out, child.err]).flatten();
        let kept: io::Result<Vec<_>> = numbers.chain(pipes).map(descriptor).collect();
        let kept = match kept {
            Ok(kept) => kept,
            Err(error) => return error,
        };
        self.failure = Some(why);
        let kept: Vec<_> = kept.iter().map(OwnedFd::as_fd).collect();
        takeover::exec(&mut command, &self, &kept)
    }

    /// Takes the children over; call it once.
    pub(super) fn adopt(&self) -> io::Result<Vec<Adopted>> {
        let (mono, boot) = (clock::now().mono, clock::since_boot());
        let adopt = |child: &Heir| {
            let left = |end| Duration::from_nanos(end).saturating_sub(boot);
            Ok(Adopted {
                living: Living {
                    role: child.agent.map_or(Role::Controller, Role::Agent),
                    ready: child.is_ready,
                    lease: child.lease.map(|end| mono + left(end)),
                },
                pid: Pid::from_raw(child.pid).ok_or(io::ErrorKind::InvalidData)?,
                out: child.out.map(descriptor).transpose()?,
                err: child.err.map(descriptor).transpose()?,
            })
        };
        self.children.iter().map(adopt).collect()
    }
}

/// Turns this process back into the old program, whose state is in this descriptor, because the new one cannot serve. Returns only on
/// failure, with the reason.
#[must_use]
pub fn go_back(handover: i32, why: String) -> String {
    match takeover::state::<Handover>(handover) {
        Ok(handover) => handover.go_back(why).to_string(),
        Err(error) => error.to_string(),
    }
}

/// Whether the program of this command can take over; otherwise a sentence that says why not. It reads the state on stdin.
pub(super) fn is_ready(command: &mut Command, state: &Handover) -> Result<(), String> {
    let program = command.get_program().display().to_string();
    let failed = |error: io::Error| format!("{program} cannot be started: {error}");
    let state = takeover::in_memory(state).map_err(failed)?;
    command.args(["--probe", "--handover", "0"]).stdin(state).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = with_clean_mask(|| command.spawn()).map_err(failed)?;
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).map_err(|error| failed(error.into()))?;
    let is_late = !readable::is_readable(pidfd, Some(ANSWER_MAX));
    if is_late {
        // It is not reaped, so its number cannot be reused.
        let _ = child.kill();
    }
    let output = child.wait_with_output().map_err(failed)?;
    if is_late {
        return Err(format!("{program} has not answered within {} s", ANSWER_MAX.as_secs()));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && said.lines().any(|line| line == READINESS) {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    let why = why.lines().last().map(|line| line.strip_prefix("llts: ").unwrap_or(line));
    Err(format!("{program} cannot take over: {}", why.unwrap_or("it is not a version of llts that can")))
}

/// Why this program cannot take a service over.
#[derive(Debug, thiserror::Error)]
pub enum Unready {
    /// The store is of a newer version, or cannot be read.
    #[error(transparent)]
    Store(#[from] store::StoreError),
    /// Another user controls a folder.
    #[error(transparent)]
    Folder(#[from] Untrusted),
    /// No agent could start in its work folder.
    #[error("AGENT_WORK_DIR: {0}")]
    Work(#[from] AgentError),
    /// The state of the running supervisor has another format.
    #[error("this version does not understand the state of the running supervisor: {0}")]
    State(serde_json::Error),
}

/// Checks that this program can serve this state folder and, if there is a running supervisor's state, continue from it.
///
/// # Errors
/// [`Unready`]
pub fn check_readiness(config: &Config, state: Option<impl io::Read>) -> Result<(), Unready> {
    trust::check(config, Part::Supervisor)?;
    agent::process::check_work_folder(config)?;
    store::check_version(&config.paths.state_dir)?;
    state.map(serde_json::from_reader::<_, Handover>).transpose().map_err(Unready::State)?;
    Ok(())
}
