//! The start of a command in place of a tool. A command that cannot be started ends as in a shell: with 126 or 127, and a
//! sentence in its standard error. As in a shell, too, the place of a program in PATH is remembered, but for a moment only.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{MemfdFlags, Mode, memfd_create};
use rustix::io::Errno;

use super::failure::failure;
use crate::engine::slot::SpawnFailure;
use crate::shell::clock;
use crate::shell::process::{self, Brand, Command, CommandError, CommandPlan, Environment, RunningChild};
use crate::shell::stdio::Streams;
use crate::types::{ExitCode, Mono, TaskCommand};

/// How long the place of a program in PATH is believed. A search costs two system calls for the program and one for each
/// folder before it, a tenth of what a short command costs its agent.
const PLACE_VALIDITY: Duration = Duration::from_millis(100);

/// The program that was last found in PATH, and when.
#[derive(Debug, Default)]
pub(super) struct LastProgram(Option<(Command, Mono)>);

impl LastProgram {
    /// The same program as a moment ago.
    fn again(&self, now: Mono, words: &[OsString]) -> Option<Command> {
        let (command, _) = self.0.as_ref().filter(|(_, found)| now.since(*found) < PLACE_VALIDITY)?;
        command.again(words)
    }

    fn note(&mut self, now: Mono, command: Command) {
        self.0 = command.is_of_path().then_some((command, now));
    }
}

/// What the start of a command shares with that of run.sh.
pub(super) struct CommandStart<'a> {
    /// The folder of its task, in which it starts unless it names another one.
    pub(super) folder: &'a Path,
    pub(super) environment: &'a mut Environment,
    /// Its standard input in place of none, and its outputs in place of these.
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

/// Starts commands.
pub(super) struct CommandStarter {
    /// `/dev/null`: the standard input of each run.
    pub(super) nothing: File,
    last: LastProgram,
}

impl CommandStarter {
    /// # Errors
    /// When `/dev/null` cannot be opened.
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self { nothing: File::open("/dev/null")?, last: LastProgram::default() })
    }

    /// Starts a command. The sentence about one that cannot be started is in its standard error.
    pub(super) fn start(
        &mut self,
        command: &TaskCommand,
        shared: CommandStart<'_>,
    ) -> Result<RunningChild, NotStarted> {
        let Self { nothing, last } = self;
        let CommandStart { folder, environment, streams, stdout, mut stderr, brand, not_after } = shared;
        let folder = command.folder.as_ref().map_or(folder, Path::new);
        environment.set("PWD", folder).map_err(io::Error::other)?;
        let text = command.stdin.as_ref().filter(|_| streams.is_none()).map(|text| file_with(text)).transpose()?;
        let stdin = streams.map_or(text.as_ref().unwrap_or(nothing), |streams| &streams.stdin).as_fd();
        let outputs =
            streams.and_then(|streams| streams.outputs.as_ref()).map(|outputs| outputs.each_ref().map(AsFd::as_fd));
        let [out, err]: [BorrowedFd<'_>; 2] = outputs.unwrap_or([stdout.as_fd(), stderr.as_fd()]);
        let words: Vec<OsString> = command.words.iter().map(Into::into).collect();
        let umask = command.umask.map(Mode::from_raw_mode);
        let start = |command: &Command| {
            let plan =
                CommandPlan { command, folder, environment: &*environment, stdin, stdout: out, stderr: err, brand };
            process::spawn_program(&plan, umask, not_after)
        };
        let now = clock::now().mono;
        // If it cannot be started from there any more, the search finds where it is, or says why not.
        if let Some(Ok(child)) = last.again(now, &words).map(|command| start(&command)) {
            return Ok(child);
        }
        let found = find(folder, &words);
        let started = found.and_then(|command| {
            let child = start(&command)?;
            last.note(now, command);
            Ok(child)
        });
        started.map_err(|error| match error {
            CommandError::Start { source: Errno::TXTBSY, .. } => NotStarted::Failed(SpawnFailure::Busy),
            // The limit of processes, memory, and the lease of the run: another agent, or another moment, may have more luck.
            CommandError::Start { source: Errno::AGAIN | Errno::NOMEM | Errno::TIME, .. } => {
                NotStarted::Failed(SpawnFailure::Failed(failure(&error)))
            }
            error => {
                if let Err(error) = writeln!(stderr, "llts: {error}") {
                    log::warn!("cannot write to the standard error of a command: {error}");
                }
                let is_missing = matches!(error, CommandError::NotFound { .. });
                NotStarted::Ended(if is_missing { TaskCommand::NOT_FOUND } else { TaskCommand::NOT_STARTED })
            }
        })
    }
}

/// Finds the program that the first word names. A working directory that does not exist is the reason also for a program that
/// is not found in it.
fn find(folder: &Path, words: &[OsString]) -> Result<Command, CommandError> {
    let path = std::env::var_os("PATH");
    Command::find_from(folder, words, path.as_deref()).map_err(|error| match folder.metadata() {
        Ok(_) => error,
        Err(error) => CommandError::Folder {
            folder: folder.to_owned(),
            source: Errno::from_io_error(&error).unwrap_or(Errno::INVAL),
        },
    })
}

/// A file without a name with this content, at its beginning: a command that does not read it blocks no other process.
fn file_with(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_program_in_path_is_believed_for_a_moment() {
        let words = |text: &str| text.split(' ').map(Into::into).collect::<Vec<OsString>>();
        let found = |text: &str| Command::find(&words(text), std::env::var_os("PATH").as_deref()).unwrap();
        let (at, before, after) = (Mono::from_nanos(0), PLACE_VALIDITY - Duration::from_nanos(1), PLACE_VALIDITY);
        let mut last = LastProgram::default();
        assert_eq!(last.again(at, &words("true 1")), None);
        last.note(at, found("true 1"));
        assert_eq!(last.again(at + before, &words("true 2")), Some(found("true 2")));
        assert_eq!(last.again(at + before, &words("false 2")), None, "another program");
        assert_eq!(last.again(at + after, &words("true 2")), None, "its folder may have changed");
        last.note(at, found("/bin/sh"));
        assert_eq!(last.again(at, &words("/bin/sh")), None, "a path says itself where it leads");
    }
}
