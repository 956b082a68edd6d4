//! The commands of a worker, one after another: lines for `/bin/sh`, their processes, and the record by which these are
//! found when the worker has died.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::WorkerStartError;
use crate::ladder::Signal;
use crate::process::{
    Brand, ChildEnd, Command, CommandError, CommandPlan, Cookie, Environment, ProcessId, RecordError, RecordFile,
    RunProcesses, RunRecord, Subject as _,
};
use crate::runs::{Runs, RunsError, WorkerRun};
use crate::{clock, process};
use base::EndSignal;

/// The processes of the current command, and the state that outlives it.
#[derive(Debug)]
pub struct Commands {
    /// All commands share one name in it, because a dead worker has at most one, and all remains of it are ended.
    record: RunRecord<WorkerRun>,
    file: RecordFile,
    /// Keeps the realm of the records locked.
    _runs: Runs,
    environment: Environment,
    brand: Option<Brand>,
    null: File,
    processes: RunProcesses,
}

impl Commands {
    /// Ends the commands that dead workers have left. The variable `mark` marks every process of a command.
    pub fn start(mark: &str, runs: Runs) -> Result<Self, WorkerStartError> {
        let agent = ProcessId::own().map_err(io::Error::from)?;
        runs.sweep();
        runs.remove_dead_realms();
        let file = runs.records.of(agent, None).map_err(RunsError::from)?;
        let (subject, brand) = (WorkerRun::new(clock::now().wall), Brand::fresh());
        // A command must not see the configuration of its worker: with a secret from it, it could take tasks.
        let mut environment = Environment::inherited(|name| name.as_bytes().starts_with(b"LLTS_"));
        environment.set(mark, subject.folder()).map_err(io::Error::other)?;
        let cookie = Cookie::new([format!("{mark}={}", subject.folder())]).branded(brand);
        let record = RunRecord { subject, root: None, agent, cookie };
        let (null, processes) = (File::open("/dev/null")?, RunProcesses::none());
        Ok(Self { record, file, _runs: runs, environment, brand, null, processes })
    }

    /// The environment of commands.
    pub const fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The mark of all processes of commands, which they cannot remove.
    pub const fn brand(&self) -> Option<Brand> {
        self.brand
    }

    /// Starts a command in a folder, with these files as stdout and stderr.
    pub fn begin(&mut self, line: OsString, folder: &Path, [stdout, stderr]: [&File; 2]) -> Result<(), CommandError> {
        let command = Command::find(&["/bin/sh".into(), "-c".into(), line], None)?;
        let child = process::spawn_command(&CommandPlan {
            command: &command,
            folder,
            environment: &self.environment,
            stdin: self.null.as_fd(),
            stdout: stdout.as_fd(),
            stderr: stderr.as_fd(),
            brand: self.brand,
            is_terminal: false,
        })?;
        if let Err(error) = self.write_record(Some(child.id())) {
            // The command can still be found by its mark.
            log::error!("{error}");
        }
        self.processes.start(child, EndSignal::Term);
        Ok(())
    }

    /// Writes the record, with the root of the running command, if any.
    pub fn write_record(&mut self, root: Option<ProcessId>) -> Result<(), RecordError> {
        self.record.root = root;
        self.file.write(&self.record)
    }

    /// Records that nothing is left of any command.
    pub fn clear_record(&mut self) -> Result<(), RecordError> {
        self.file.clear()
    }

    /// Signals all processes of the command.
    pub fn signal(&self, signal: Signal) {
        self.processes.signal(signal);
    }

    /// Handles the end of a child: the command, or an orphan that it left behind.
    pub fn reap(&mut self) -> Option<ChildEnd> {
        self.processes.reap()
    }

    /// Whether processes of the command are left.
    pub fn is_any_left(&mut self) -> bool {
        self.processes.look().left
    }
}
