//! Starts a user's command, found as a shell would find it. Starting a run.sh is [`super::spawn()`]'s concern.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Access, Mode, OFlags};
use rustix::io::Errno;

use super::brand::Brand;
use super::child::RunningChild;
use super::environment::Environment;
use super::spawn::start;
use super::sys::NewProcess;

const SHELL_PATH: &CStr = c"/bin/sh";

/// An existing program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Absolute path.
    program: PathBuf,
    /// Its name as the user wrote it, then its arguments.
    words: Vec<OsString>,
}

/// How to start a [`Command`].
#[derive(Debug)]
pub struct CommandPlan<'a> {
    /// The command.
    pub command: &'a Command,
    /// Its working directory.
    pub folder: &'a Path,
    /// Its whole environment; no variable is added.
    pub environment: &'a Environment,
    /// Its standard input.
    pub stdin: BorrowedFd<'a>,
    /// Its standard output.
    pub stdout: BorrowedFd<'a>,
    /// Its standard error.
    pub stderr: BorrowedFd<'a>,
    /// The mark of it and of all processes that it starts.
    pub brand: Option<Brand>,
    /// Whether its standard input is a terminal, which becomes the controlling terminal of its own session.
    pub is_terminal: bool,
}

/// Advice for a shell line that was given as the name of a program.
fn advice(name: &OsStr) -> &'static str {
    let is_line = name.as_bytes().iter().any(|byte| byte.is_ascii_whitespace() || b"|;&<>".contains(byte));
    if is_line { "; a line of shell needs --sh: llts run --sh 'LINE'" } else { "" }
}

/// Why a command was not found or not started.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// There is no word at all.
    #[error("there is no command")]
    Empty,
    /// No such program.
    #[error("there is no program {name:?}{}{}", if *searched { " in any folder of PATH" } else { "" }, advice(name))]
    NotFound {
        /// Its name as the user wrote it.
        name: OsString,
        /// Whether PATH was searched, because the name has no slash.
        searched: bool,
    },
    /// The file exists, but is not a program.
    #[error("{} is not an executable file", .0.display())]
    NotExecutable(PathBuf),
    /// The working directory cannot be opened.
    #[error("cannot open the folder {}: {source}", folder.display())]
    Folder {
        /// Path of the folder.
        folder: PathBuf,
        /// Error of the system.
        source: Errno,
    },
    /// It has no `#!` line, and is not in a format that the kernel executes.
    #[error("{} is not a program: it has no #! line", .0.display())]
    NotAProgram(PathBuf),
    /// The interpreter that its first line names does not exist.
    #[error("the interpreter that the first line of {} names does not exist", .0.display())]
    NoInterpreter(PathBuf),
    /// A word that cannot be passed to a process.
    #[error("{0:?} holds a NUL byte")]
    Unpassable(OsString),
    /// Any other failure, such as too many processes.
    #[error("cannot start {}: {source}", program.display())]
    Start {
        /// Path of the program.
        program: PathBuf,
        /// Error of the system.
        source: Errno,
    },
}

impl CommandError {
    /// Whether this machine lacks the working directory, or denies this user access to it. Another machine may have it.
    #[must_use]
    pub const fn is_of_folder(&self) -> bool {
        let Self::Folder { source, .. } = self else { return false };
        matches!(*source, Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::STALE)
    }

    /// Whether the words are the reason, so that the same would happen everywhere.
    #[must_use]
    pub const fn is_of_words(&self) -> bool {
        matches!(self, Self::Unpassable(_) | Self::Start { source: Errno::TOOBIG, .. })
    }
}

impl Command {
    /// Finds the program that the first word names. A word with a slash is a path from the current folder, any other is
    /// searched in `path`, which has the form of the variable PATH.
    ///
    /// # Errors
    /// When there is no such program.
    pub fn find(words: &[OsString], path: Option<&OsStr>) -> Result<Self, CommandError> {
        Self::find_from(Path::new(""), words, path)
    }

    /// As [`Self::find`], but a word with a slash and the relative folders of `path` start from `base`. An empty `base`
    /// is the current folder.
    ///
    /// # Errors
    /// When there is no such program.
    pub fn find_from(base: &Path, words: &[OsString], path: Option<&OsStr>) -> Result<Self, CommandError> {
        let name = words.first().filter(|name| !name.is_empty()).ok_or(CommandError::Empty)?;
        let searched = !name.as_bytes().contains(&b'/');
        let mut folders = path.filter(|_| searched).map(std::env::split_paths);
        let mut alone = folders.is_none().then(PathBuf::new);
        let mut present = None;
        while let Some(folder) = alone.take().or_else(|| folders.as_mut()?.next()) {
            let program = base.join(folder).join(name);
            // One system call per folder suffices to skip those that lack the program.
            let found = rustix::fs::access(&program, Access::EXEC_OK);
            if found == Err(Errno::NOENT) {
                continue;
            }
            let Ok(program) = std::path::absolute(program) else { continue };
            if found.is_ok() && program.is_file() {
                return Ok(Self { program, words: words.to_vec() });
            }
            // A name with a slash means this file only, so an error other than its absence does not mean that it is
            // missing.
            if present.is_none() && program.try_exists().unwrap_or(!searched) {
                present = Some(program);
            }
        }
        Err(present
            .map_or_else(|| CommandError::NotFound { name: name.clone(), searched }, CommandError::NotExecutable))
    }

    /// The same program with these words; `None` if they name another program.
    #[must_use]
    pub fn again(&self, words: &[OsString]) -> Option<Self> {
        (self.words.first() == words.first()).then(|| self.with_words(words.to_vec()))
    }

    /// Whether it was found in a folder of PATH, so that its place depends only on its name.
    #[must_use]
    pub fn is_of_path(&self) -> bool {
        self.words.first().is_some_and(|name| !name.as_bytes().contains(&b'/'))
    }

    /// The same program with other words.
    #[must_use]
    pub fn with_words(&self, words: Vec<OsString>) -> Self {
        Self { program: self.program.clone(), words }
    }

    /// Its absolute path.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The words.
    #[must_use]
    pub fn raw_words(&self) -> &[OsString] {
        &self.words
    }

    /// The words, for people.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        self.words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }
}

/// Runs the command in its own process group, with no descriptors except the three given ones. Never blocks.
///
/// `/bin/sh` runs a script without a `#!` line (`ENOEXEC`), as in every shell.
///
/// # Errors
/// See [`CommandError`]; no process is left after one.
pub fn spawn_command(plan: &CommandPlan<'_>) -> Result<RunningChild, CommandError> {
    launch(plan, None, None, |new| match start(new) {
        Err(Errno::NOEXEC) => {
            let script: Vec<&CStr> =
                [SHELL_PATH, new.program].into_iter().chain(new.arguments.iter().skip(1).copied()).collect();
            start(&NewProcess { program: SHELL_PATH, arguments: &script, ..*new })
        }
        other => other,
    })
}

/// As [`spawn_command`], for a program that the kernel executes itself: a script without a `#!` line is refused.
/// `umask` replaces the umask for tools; [`super::SpawnPlan::not_after`] explains `not_after`.
///
/// # Errors
/// See [`CommandError`]; no process is left after one.
pub fn spawn_program(
    plan: &CommandPlan<'_>,
    umask: Option<Mode>,
    not_after: Option<Duration>,
) -> Result<RunningChild, CommandError> {
    launch(plan, umask, not_after, start).map_err(|error| match error {
        CommandError::Start { program, source: Errno::NOEXEC } => CommandError::NotAProgram(program),
        CommandError::Start { program, source: Errno::NOENT } => CommandError::NoInterpreter(program),
        other => other,
    })
}

fn launch(
    plan: &CommandPlan<'_>,
    umask: Option<Mode>,
    not_after: Option<Duration>,
    start: impl FnOnce(&NewProcess<'_>) -> rustix::io::Result<RunningChild>,
) -> Result<RunningChild, CommandError> {
    let Command { program, words } = plan.command;
    let failed = |error| CommandError::Start { program: program.clone(), source: error };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(plan.folder, flags, Mode::empty())
        .map_err(|error| CommandError::Folder { folder: plan.folder.to_owned(), source: error })?;
    let environment: Vec<&CStr> = plan.environment.entries().collect();
    let words = words.iter().map(|word| passable(word)).collect::<Result<Vec<_>, _>>()?;
    let path = passable(program.as_os_str())?;
    let words: Vec<&CStr> = words.iter().map(AsRef::as_ref).collect();

    let new = NewProcess {
        program: &path,
        arguments: &words,
        environment: &environment,
        folder: folder.as_fd(),
        stdio: [plan.stdin, plan.stdout, plan.stderr],
        brand: plan.brand,
        umask,
        not_after,
        is_terminal: plan.is_terminal,
        passed: None,
    };
    start(&new).map_err(failed)
}

fn passable(word: &OsStr) -> Result<CString, CommandError> {
    CString::new(word.as_bytes()).map_err(|_| CommandError::Unpassable(word.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(Into::into).collect()
    }

    fn find(text: &str, path: &Path) -> Result<PathBuf, String> {
        let found = Command::find(&words(text), Some(path.as_os_str()));
        found.map(|command| command.program).map_err(|error| error.to_string())
    }

    #[test]
    fn a_command_is_found_as_a_shell_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, mode| {
            let path = folder.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let (good, text) = (file("good", 0o755), file("text", 0o644));
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        assert_eq!(find("good a b", folder.path()), Ok(good.clone()));
        assert_eq!(find(&format!("{} a", good.display()), Path::new("")), Ok(good));
        assert_eq!(find("text", folder.path()), Err(format!("{} is not an executable file", text.display())));
        assert!(find("folder", folder.path()).unwrap_err().ends_with("is not an executable file"));
        assert_eq!(find("no", folder.path()), Err("there is no program \"no\" in any folder of PATH".to_owned()));
        let lines = Command::find(&["echo hi | wc".into()], None).unwrap_err().to_string();
        assert!(lines.ends_with("of PATH; a line of shell needs --sh: llts run --sh 'LINE'"), "{lines}");
        assert_eq!(find("./no", folder.path()), Err("there is no program \"./no\"".to_owned()));
        assert!(matches!(Command::find(&[], None), Err(CommandError::Empty)));
        assert!(matches!(Command::find(&words(""), None), Err(CommandError::Empty)));
    }
}
