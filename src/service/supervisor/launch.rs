//! Starts a supervisor as a process of its own and reads its report.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal};

use super::child::Lines;
use super::{Report, Service};
use proc::readable;
use proc::signals::{Signals, with_clean_mask};
use proc::supervised::HOME_VARIABLE;

/// The option of a supervisor that ends without work.
pub(super) const UNTIL_IDLE: &str = "--until-idle";

/// The parameters of a supervisor.
#[derive(Debug)]
pub struct Launch {
    /// The `llts` program.
    pub program: PathBuf,
    /// The home of the service, in which all of its processes run.
    pub home: PathBuf,
    /// Its configuration file as an absolute path, if one was named.
    pub config: Option<PathBuf>,
    /// Number of agents.
    pub agents: u16,
    /// Whether it ends after a time without work.
    pub until_idle: bool,
    /// The address of a controller on another machine, as `tcp://IP:PORT`; then none is started here.
    pub elsewhere: Option<String>,
    /// `None`: it outlives this process. A folder: it ends with this process, and removes the folder.
    pub ephemeral_dir: Option<PathBuf>,
    /// Further environment variables.
    pub environment: Vec<(Cow<'static, str>, OsString)>,
}

/// Why a service did not come up.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The supervisor cannot be started.
    #[error("cannot start the service: {0}")]
    Start(#[source] io::Error),
    /// The reason that the supervisor gave.
    #[error("{0}")]
    Failed(String),
    /// It ended without a report.
    #[error("the service ended before it was up; its log may tell why: {}", .0.display())]
    Silent(PathBuf),
}

/// A supervisor that was started.
#[derive(Debug)]
pub struct Launched {
    child: Child,
    report: Lines,
    /// The supervisor of an ephemeral service ends when this is closed, however this process ends.
    lifeline: Option<ChildStdin>,
}

impl Launch {
    /// Starts the supervisor.
    ///
    /// # Errors
    /// When no process can be started.
    pub fn start(&self) -> Result<Launched, LaunchError> {
        let mut command = self.command();
        let mut child = with_clean_mask(|| command.spawn()).map_err(LaunchError::Start)?;
        let report = Lines::new(child.stdout.take().map(OwnedFd::from)).map_err(LaunchError::Start)?;
        let lifeline = child.stdin.take();
        Ok(Launched { child, report, lifeline })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        command.args(["supervise", "--detached", "--agents", &self.agents.to_string()]);
        if self.until_idle {
            command.arg(UNTIL_IDLE);
        }
        if let Some(controller) = &self.elsewhere {
            command.args(["--of", controller]);
        }
        command.stdin(Stdio::null());
        if let Some(folder) = &self.ephemeral_dir {
            command.arg("--guest").arg(folder).stdin(Stdio::piped());
        }
        // An inherited stderr would make a reader of ours wait until the service ends.
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command.envs(self.environment.iter().map(|(name, value)| (name.as_ref(), value)));
        command.current_dir(&self.home).env(HOME_VARIABLE, &self.home);
        command
    }
}

impl Launched {
    /// Waits until the service is up. On a signal to this process, the supervisor is asked to stop, and then reports
    /// that.
    ///
    /// # Errors
    /// When it did not come up. No part of it is left then, unless the supervisor was killed or a second signal cut the
    /// wait short.
    pub fn wait_up(&mut self, signals: &mut Signals, log: &Path) -> Result<Service, LaunchError> {
        loop {
            for line in self.report.read() {
                match serde_json::from_str(&line) {
                    Ok(Report::Up(service)) => return Ok(*service),
                    Ok(Report::Failed(reason)) => {
                        self.wait_end(signals);
                        return Err(LaunchError::Failed(reason));
                    }
                    Err(_) => {}
                }
            }
            let Some(report) = self.report.fd() else {
                self.wait_end(signals);
                return Err(LaunchError::Silent(log.to_owned()));
            };
            wait_for(report, signals.as_fd());
            if !signals.read().is_empty() {
                self.terminate();
            }
        }
    }

    /// Ends the ephemeral service and waits for its end; `true` if no part of it is left. A signal to this process ends the wait early. A
    /// killed supervisor leaves its processes behind.
    pub fn end(mut self, signals: &mut Signals) -> bool {
        drop(self.lifeline.take());
        self.wait_end(signals)
    }

    fn wait_end(&mut self, signals: &mut Signals) -> bool {
        let Ok(pidfd) = rustix::process::pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty()) else {
            return false;
        };
        loop {
            match self.child.try_wait() {
                Ok(None) => wait_for(pidfd.as_fd(), signals.as_fd()),
                Ok(Some(status)) => return status.code().is_some(),
                Err(_) => return false,
            }
            if !signals.read().is_empty() {
                return false;
            }
        }
    }

    fn terminate(&self) {
        // It is our child and not reaped, so its number cannot be reused.
        let _ = rustix::process::kill_process(Pid::from_child(&self.child), Signal::TERM);
    }
}

/// Waits until either is readable.
fn wait_for(one: BorrowedFd<'_>, other: BorrowedFd<'_>) {
    // An interruption counts as an event: the caller checks again.
    readable::wait([one, other], None);
}
