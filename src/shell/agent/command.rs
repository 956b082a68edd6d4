//! The start of a command in place of a tool. A command that cannot be started ends as in a shell: with 126 or 127, and a
//! sentence in its standard error.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{MemfdFlags, Mode, memfd_create};
use rustix::io::Errno;

use super::preparation::failure;
use crate::engine::slot::SpawnFailure;
use crate::shell::process::{self, Brand, Command, CommandError, CommandPlan, Environment, RunningChild};
use crate::shell::stdio::Streams;
use crate::types::{ExitCode, TaskCommand};

/// What the start of a command shares with that of run.sh.
pub(super) struct CommandStart<'a> {
    /// The folder of its task, in which it starts unless it names another one.
    pub(super) folder: &'a Path,
    pub(super) environment: Environment,
    pub(super) nothing: &'a File,
    /// Its standard input in place of that, and its outputs in place of these.
    pub(super) streams: Option<&'a Streams>,
    pub(super) stdout: File,
    pub(super) stderr: File,
    pub(super) brand: Option<Brand>,
    pub(super) not_after: Option<Duration>,
}

/// Why a command was not started.
pub(super) enum NotStarted {
    /// Because of the command: it has ended with this code.
    Ended(ExitCode),
    /// Because of the agent, or of the moment.
    Failed(SpawnFailure),
}

impl From<io::Error> for NotStarted {
    fn from(error: io::Error) -> Self {
        Self::Failed(SpawnFailure::Failed(failure(&format_args!("cannot start the command: {error}"))))
    }
}

/// Starts a command. The sentence about one that cannot be started is in its standard error.
pub(super) fn start(command: &TaskCommand, shared: CommandStart<'_>) -> Result<RunningChild, NotStarted> {
    let CommandStart { folder, mut environment, nothing, streams, stdout, stderr, brand, not_after } = shared;
    let folder = command.folder.as_ref().map_or(folder, Path::new);
    environment.set("PWD", folder).map_err(io::Error::other)?;
    let stdin = match (streams, &command.stdin) {
        (Some(streams), _) => streams.stdin.try_clone()?,
        (None, Some(text)) => file_with(text)?,
        (None, None) => nothing.try_clone()?,
    };
    let mut complaints = stderr.try_clone()?;
    let [stdout, stderr] = match streams.and_then(|streams| streams.outputs.as_ref()) {
        Some([stdout, stderr]) => [stdout.try_clone()?, stderr.try_clone()?],
        None => [stdout, stderr],
    };
    let words: Vec<OsString> = command.words.iter().map(Into::into).collect();
    let path = std::env::var_os("PATH");
    // A working directory that does not exist is the reason also for a program that is not found in it.
    let found = Command::find_from(folder, &words, path.as_deref()).map_err(|error| match folder.metadata() {
        Ok(_) => error,
        Err(error) => CommandError::Folder {
            folder: folder.to_owned(),
            source: Errno::from_io_error(&error).unwrap_or(Errno::INVAL),
        },
    });
    let started = found.and_then(|command_found| {
        let plan =
            CommandPlan { command: &command_found, folder, environment: &environment, stdin, stdout, stderr, brand };
        process::spawn_program(&plan, command.umask.map(Mode::from_raw_mode), not_after)
    });
    started.map_err(|error| match error {
        CommandError::Start { source: Errno::TXTBSY, .. } => NotStarted::Failed(SpawnFailure::Busy),
        // The limit of processes, memory, and the lease of the run: another agent, or another moment, may have more luck.
        CommandError::Start { source: Errno::AGAIN | Errno::NOMEM | Errno::TIME, .. } => {
            NotStarted::Failed(SpawnFailure::Failed(failure(&error)))
        }
        error => {
            if let Err(error) = writeln!(complaints, "llts: {error}") {
                log::warn!("cannot write to the standard error of a command: {error}");
            }
            let is_missing = matches!(error, CommandError::NotFound { .. });
            NotStarted::Ended(if is_missing { TaskCommand::NOT_FOUND } else { TaskCommand::NOT_STARTED })
        }
    })
}

/// A file without a name with this content, at its beginning: a command that does not read it blocks no other process.
fn file_with(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}
