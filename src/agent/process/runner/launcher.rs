//! The start of run.sh, or of the command in its place, with the environment that it gets.

use std::ffi::OsStr;
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use super::super::AgentError;
use super::super::command::{CommandStart, CommandStarter, NotStarted};
use super::super::failure::failure;
use super::super::preparation::{Prepared, STDERR, STDOUT};
use super::super::progress::PROGRESS;
use crate::slot::{Hold, SpawnFailure};
use crate::workspace::TaskDir;
use api::config::{Config, key_variables};
use api::wire::requests::apply::Dispatch;
use api::wire::{info, policy, source, step_files};
use base::ToolName;
use proc::process::spawn::PASSED;
use proc::process::{Brand, Environment, RunningChild, SpawnError, SpawnPlan};
use proc::{clock, lending, process};

pub(super) struct Launcher {
    /// Environment of each run, before the variables of its task.
    environment: Environment,
    controller: String,
    ip: IpAddr,
    commands: CommandStarter,
    /// The mark by which all processes of the runs are recognised, whatever they do to their environment.
    brand: Option<Brand>,
    /// No run may start later than this time since the boot.
    not_after: Option<Duration>,
}

impl Launcher {
    pub(super) fn open(
        environment: Environment,
        (controller, ip): (String, IpAddr),
        brand: Option<Brand>,
    ) -> std::io::Result<Self> {
        let commands = CommandStarter::open()?;
        Ok(Self { environment, controller, ip, commands, brand, not_after: None })
    }

    /// Sets how long the lease of the run allows a start.
    pub(super) fn set_hold(&mut self, hold: Option<Hold>) {
        self.not_after = hold.map(|hold| clock::from_boot(hold.until));
    }

    /// Starts run.sh, or the command in its place.
    pub(super) fn start(&mut self, dispatch: &Dispatch, folder: &Prepared) -> Result<RunningChild, NotStarted> {
        let Prepared { dir, streams, out, .. } = folder;
        let mut environment = self.environment.clone();
        for (name, value) in dispatch.command.iter().flat_map(|command| &command.environment) {
            environment.set(name, value).map_err(|error| not_started(&error))?;
        }
        // After the variables of the command, which must not replace those of the task.
        for (name, value) in info::environment(dispatch, &self.controller, self.ip) {
            environment.set(&*name, &*value).map_err(|error| not_started(&error))?;
        }
        environment.set(info::PROGRESS_FILE, dir.path().join(PROGRESS)).map_err(|error| not_started(&error))?;
        if let Some(out) = out {
            environment.set(step_files::OUT_PATH, out.path()).map_err(|error| not_started(&error))?;
            environment.set(step_files::TASK_PATH, dir.path()).map_err(|error| not_started(&error))?;
        }
        let stdout = dir.open_output(STDOUT).map_err(|error| not_started(&error))?;
        let (_, is_merged) = policy::of_run(&dispatch.fields);
        let stderr = dir.open_output(if is_merged { STDOUT } else { STDERR }).map_err(|error| not_started(&error))?;
        let working_directory = dir.path().join(dispatch.tool.folder_name());
        let started = dispatch
            .source
            .as_ref()
            .and_then(|from| Some(source::command(dispatch.tool.as_str(), from.input.as_ref()?)));
        let command = dispatch.command.as_deref().map(|command| (command, &*working_directory));
        if let Some((command, folder)) = command.or_else(|| Some((started.as_ref()?, dir.path()))) {
            let (environment, streams) = (&mut environment, streams.as_ref());
            let (brand, not_after) = (self.brand, self.not_after);
            let shared = CommandStart { folder, environment, streams, stdout, stderr, brand, not_after };
            return self.commands.start(command, shared);
        }
        self.start_program((dir, &dispatch.tool), environment, [&stdout, &stderr], None)
    }

    /// Starts a tool that stays in its home, with this end of its connection, and with this mark.
    pub(super) fn start_staying(
        &self,
        tool: &ToolName,
        home: &TaskDir,
        (line, mark): (&OwnedFd, &str),
    ) -> Result<RunningChild, NotStarted> {
        let mut environment = self.environment.clone();
        for (name, value) in info::environment_of_every_task(&self.controller, self.ip) {
            environment.set(&*name, &*value).map_err(|error| not_started(&error))?;
        }
        environment.set(info::PROGRESS_FILE, home.path().join(PROGRESS)).map_err(|error| not_started(&error))?;
        for (name, value) in [(info::STAY, mark), (info::STAY_FD, &PASSED.to_string())] {
            environment.set(name, value).map_err(|error| not_started(&error))?;
        }
        let open = |name| home.open_output(name).map_err(|error| not_started(&error));
        self.start_program((home, tool), environment, [&open(STDOUT)?, &open(STDERR)?], Some(line.as_fd()))
    }

    /// Starts run.sh of a tool in its folder.
    fn start_program(
        &self,
        (dir, tool): (&TaskDir, &ToolName),
        mut environment: Environment,
        [stdout, stderr]: [&File; 2],
        passed: Option<BorrowedFd<'_>>,
    ) -> Result<RunningChild, NotStarted> {
        // Programs believe PWD, and that of the agent names another folder.
        let working_directory = dir.path().join(tool.folder_name());
        environment.set("PWD", working_directory).map_err(|error| not_started(&error))?;
        let folder = dir.tool_folder(tool).map_err(|error| not_started(&error))?;
        let plan = SpawnPlan {
            folder: folder.as_fd(),
            environment: &environment,
            stdin: self.commands.nothing.as_fd(),
            stdout: stdout.as_fd(),
            stderr: stderr.as_fd(),
            brand: self.brand,
            not_after: self.not_after,
            passed,
        };
        process::spawn(&plan).map_err(|error| match error {
            SpawnError::Busy => NotStarted::Failed(SpawnFailure::Busy),
            error => not_started(&error),
        })
    }
}

/// A start that has failed because of the agent.
pub(super) fn not_started(error: &dyn std::fmt::Display) -> NotStarted {
    NotStarted::Failed(SpawnFailure::Failed(failure(error)))
}

/// The agent's own environment, without the variables of its starting folder and of this service, but with the paths of the
/// CURVE keys and the way to the supervisor, for an `llts` that a tool starts.
pub(super) fn inherited(config: &Config) -> Result<Environment, AgentError> {
    let is_ours = |name: &OsStr| name == "OLDPWD" || name.as_bytes().starts_with(b"LLTS_");
    let mut environment = Environment::inherited(is_ours);
    if let Some(name) = std::env::var_os(lending::VARIABLE) {
        environment.set(lending::VARIABLE, name).map_err(std::io::Error::other)?;
    }
    let keys = config.network.curve_client.as_ref().map(key_variables).transpose()?;
    for (name, path) in keys.into_iter().flatten() {
        environment.set(name, path).map_err(std::io::Error::other)?;
    }
    Ok(environment)
}
