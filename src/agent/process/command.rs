//! The start of a command in place of a tool. A command that cannot be started ends as in a shell: with 126 or 127, and a
//! sentence in its standard error. Also as in a shell, the path of a program found in PATH is cached, but only for a moment.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{MemfdFlags, Mode, memfd_create};
use rustix::io::Errno;

use super::failure::{failure, not_here};
use crate::slot::SpawnFailure;
use base::{ExitCode, Mono, TaskCommand};
use proc::process::{Brand, Command, CommandError, CommandPlan, Environment, RunningChild};
use proc::stdio::Streams;
use proc::{clock, process};

/// How long the path of a program found in PATH is cached. A search costs two system calls for the program and one for each
/// folder before it, a tenth of what a short command costs its agent.
const PLACE_VALIDITY: Duration = Duration::from_millis(100);

/// PATH of a task without one, as in execvpe.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The program of the last search, with its PATH and time.
#[derive(Debug, Default)]
pub(super) struct LastProgram(Option<(Command, OsString, Mono)>);

impl LastProgram {
    /// The cached program, if these words name it.
    fn again(&self, now: Mono, words: &[OsString], path: &OsStr) -> Option<Command> {
        let is_valid = |(_, in_path, found): &&_| now.since(*found) < PLACE_VALIDITY && *in_path == path;
        let (command, ..) = self.0.as_ref().filter(is_valid)?;
        command.again(words)
    }

    fn note(&mut self, now: Mono, command: Command, path: &OsStr) {
        // A relative folder belongs to this task only.
        let is_lasting = command.is_of_path() && std::env::split_paths(path).all(|folder| folder.is_absolute());
        self.0 = is_lasting.then(|| (command, path.to_owned(), now));
    }
}

/// The parameters of a command that run.sh has too.
pub(super) struct CommandStart<'a> {
    /// The folder of the task, in which a command starts unless it names another one.
    pub(super) folder: &'a Path,
    pub(super) environment: &'a mut Environment,
    /// The streams of its client, in place of an empty standard input and of the two outputs.
    pub(super) streams: Option<&'a Streams>,
    pub(super) stdout: File,
    pub(super) stderr: File,
    pub(super) brand: Option<Brand>,
    pub(super) not_after: Option<Duration>,
}

/// Why a command was not started.
pub(super) enum NotStarted {
    /// The command is wrong: the run has ended with this code.
    Ended(ExitCode),
    /// The cause is the agent, or passes.
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

    /// Starts a command. If that fails because of the command, the reason is written to its standard error.
    pub(super) fn start(
        &mut self,
        command: &TaskCommand,
        shared: CommandStart<'_>,
    ) -> Result<RunningChild, NotStarted> {
        let Self { nothing, last } = self;
        let CommandStart { folder, environment, streams, stdout, mut stderr, brand, not_after } = shared;
        let folder = command.folder.as_deref().unwrap_or(folder);
        environment.set("PWD", folder).map_err(io::Error::other)?;
        let text = command.stdin.as_ref().filter(|_| streams.is_none()).map(|text| file_with(text)).transpose()?;
        let stdin = streams.map_or(text.as_ref().unwrap_or(nothing), |streams| &streams.stdin).as_fd();
        let outputs =
            streams.and_then(|streams| streams.outputs.as_ref()).map(|outputs| outputs.each_ref().map(AsFd::as_fd));
        let [out, err]: [BorrowedFd<'_>; 2] = outputs.unwrap_or([stdout.as_fd(), stderr.as_fd()]);
        let words = &command.words[..];
        let umask = command.umask.map(Mode::from_raw_mode);
        let start = |command: &Command| {
            let plan = CommandPlan {
                command,
                folder,
                environment: &*environment,
                stdin,
                stdout: out,
                stderr: err,
                brand,
                is_terminal: streams.is_some_and(|streams| streams.outputs.is_some()),
            };
            process::spawn_program(&plan, umask, not_after)
        };
        let path = environment.get("PATH").unwrap_or_else(|| OsStr::new(DEFAULT_PATH));
        let now = clock::now().mono;
        // If the cached path is out of date, a search finds the program or the reason.
        if let Some(Ok(child)) = last.again(now, words, path).map(|command| start(&command)) {
            return Ok(child);
        }
        let found = find(folder, words, path);
        let started = found.and_then(|command| {
            let child = start(&command)?;
            last.note(now, command, path);
            Ok(child)
        });
        started.map_err(|error| match error {
            CommandError::Start { source: Errno::TXTBSY, .. } => NotStarted::Failed(SpawnFailure::Busy),
            // The limit of processes, memory, and the lease of the run: another agent, or another moment, may have more luck.
            CommandError::Start { source: Errno::AGAIN | Errno::NOMEM | Errno::TIME, .. } => {
                NotStarted::Failed(SpawnFailure::Failed(failure(&error)))
            }
            error if error.is_of_folder() => {
                NotStarted::Failed(SpawnFailure::Failed(not_here(&format_args!(
                    "{error}; name a folder of its machine with --cwd, or send files with --in, which puts them into the folder of the \
                     task"
                ))))
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

/// Finds the program that the first word names, in the PATH of its task. If the working directory does not exist, that is the reason
/// also for a program that is not found there.
fn find(folder: &Path, words: &[OsString], path: &OsStr) -> Result<Command, CommandError> {
    Command::find_from(folder, words, Some(path)).map_err(|error| match folder.metadata() {
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
        let path = OsStr::new("/bin:/usr/bin");
        assert_eq!(last.again(at, &words("true 1"), path), None);
        last.note(at, found("true 1"), path);
        assert_eq!(last.again(at + before, &words("true 2"), path), Some(found("true 2")));
        assert_eq!(last.again(at + before, &words("false 2"), path), None, "another program");
        assert_eq!(last.again(at + before, &words("true 2"), OsStr::new("/venv/bin:/bin")), None, "another PATH");
        assert_eq!(last.again(at + after, &words("true 2"), path), None, "its folder may have changed");
        last.note(at, found("/bin/sh"), path);
        assert_eq!(last.again(at, &words("/bin/sh"), path), None, "a path says itself where it leads");
        last.note(at, found("true 1"), OsStr::new("bin:/bin"));
        assert_eq!(last.again(at, &words("true 1"), OsStr::new("bin:/bin")), None, "bin is in the folder of the task");
    }

    #[test]
    fn a_program_is_looked_up_in_the_path_of_its_task() {
        use std::os::unix::fs::PermissionsExt as _;

        let task = tempfile::tempdir().unwrap();
        let script = task.path().join("bin/sh");
        std::fs::create_dir(task.path().join("bin")).unwrap();
        std::fs::write(&script, "#!/bin/sh\necho venv\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let words = ["sh".into()];
        for (path, expected) in [("/bin", "/bin/sh"), ("bin:/bin", script.to_str().unwrap())] {
            let found = find(task.path(), &words, OsStr::new(path)).unwrap();
            assert_eq!(found.program(), Path::new(expected), "{path}");
        }
        let missing = find(task.path(), &words, OsStr::new("/nonexistent")).unwrap_err();
        assert!(matches!(missing, CommandError::NotFound { searched: true, .. }), "{missing}");
    }
}
