//! A plain command in place of a tool, for `llts submit`, `llts run` and `llts map`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::fs::FileType;

use api::wire::command::Surroundings;
use api::wire::requests::submit::Submission;
use base::json::STDIN_BYTES_MAX;
use base::{in_quotes, os_bytes, os_text};
use proc::files::privacy;
use proc::stdio;
use term::exit::Failure;
use term::output::note;

/// A command and its surroundings.
#[derive(Args, Debug)]
#[command(next_help_heading = "Command")]
pub(super) struct CommandArgs {
    /// A line for sh, in place of a tool
    #[arg(long = "sh", id = "shell", value_name = "LINE", conflicts_with = "command")]
    shell: Option<OsString>,
    /// Working directory of the command [default: this one]
    #[arg(long, value_name = "DIR", conflicts_with = "tool")]
    cwd: Option<PathBuf>,
    /// A variable for the command: one of this environment, or with a value
    #[arg(long, value_name = "NAME[=VALUE]", conflicts_with = "tool")]
    env: Vec<OsString>,
    /// All variables of this environment
    #[arg(long, conflicts_with = "tool")]
    env_all: bool,
    /// A program and its arguments, in place of a tool
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Adds to a failure about a tool how the program of its name is run, if there is one.
pub(super) fn or_as_program(failure: Failure, name: &str) -> Failure {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_program = match name.contains('/') {
        true => Path::new(name).is_file(),
        false => std::env::split_paths(&folders).any(|folder| folder.join(name).is_file()),
    };
    if !is_program {
        return failure;
    }
    Failure { sentence: format!("{}; for the program of this name: llts run -- {name}", failure.sentence), ..failure }
}

impl CommandArgs {
    /// The submission for the command. On this machine, it gets the working directory and umask of this process; on another machine, the
    /// ones named by options.
    pub(super) fn submission(&self, is_elsewhere: bool) -> Result<Submission, Failure> {
        let submission = match self.line() {
            Some(line) => Submission::shell(line),
            None => Submission::command(&command_texts(self.words())?),
        };
        Ok(submission.surrounded(&self.surroundings(is_elsewhere)?))
    }

    /// Whether a working directory is named.
    pub(super) const fn names_folder(&self) -> bool {
        self.cwd.is_some()
    }

    /// The line for sh, if there is one.
    pub(super) fn line(&self) -> Option<String> {
        self.shell.as_deref().map(os_text)
    }

    /// The program and its arguments.
    pub(super) fn words(&self) -> &[OsString] {
        &self.command
    }

    /// The working directory and umask of the command.
    pub(super) fn surroundings(&self, is_elsewhere: bool) -> Result<Surroundings, Failure> {
        let folder = if is_elsewhere { self.cwd.clone() } else { Some(self.folder_here()?) };
        Ok(Surroundings {
            folder: folder.map(|folder| os_text(folder.as_os_str())),
            umask: (!is_elsewhere).then(privacy::umask_at_start),
            environment: self.variables()?,
        })
    }

    /// Whether there is a command, in place of a tool.
    pub(super) fn is_given(&self) -> bool {
        self.shell.is_some() || !self.command.is_empty()
    }

    /// Offers the standard input of this process to the command, unless it is a terminal or `/dev/null`.
    pub(super) fn with_streams(&self, submission: Submission, users: Vec<u32>) -> Result<Submission, Failure> {
        let stdin = io::stdin();
        if !self.is_given() || stdin.is_terminal() || is_nothing(&stdin) {
            return Ok(submission);
        }
        let refused = |error| Failure::failed(format!("cannot offer the standard input to the command: {error}"));
        let stream = stdin.as_fd().try_clone_to_owned();
        let offer = stream.and_then(|stream| stdio::offer(vec![stream], users, || {})).map_err(refused)?;
        Ok(submission.streaming(offer.name()))
    }

    /// The command on a terminal of this kind, which is offered under this name.
    pub(super) fn on_terminal(&self, submission: Submission, name: &str) -> Result<Submission, Failure> {
        let mut surroundings = self.surroundings(false)?;
        for variable in ["TERM", "COLORTERM"] {
            let here = std::env::var_os(variable).filter(|_| !surroundings.environment.contains_key(variable));
            surroundings.environment.extend(here.map(|value| (variable.to_owned(), os_text(&value))));
        }
        Ok(submission.surrounded(&surroundings).streaming(name))
    }

    /// Adds the whole standard input of this process to the command, unless it is a terminal.
    pub(super) fn with_stdin(&self, submission: Submission) -> Result<Submission, Failure> {
        let stdin = io::stdin();
        if !self.is_given() || stdin.is_terminal() {
            return Ok(submission);
        }
        let mut bytes = Vec::new();
        // One byte more than the limit shows that the input is too long.
        let read = stdin.lock().take(STDIN_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|error| Failure::failed(format!("cannot read the standard input: {error}")))?;
        let input = input(bytes)?;
        Ok(if input.is_empty() { submission } else { submission.reading(input) })
    }

    /// Whether there is a command that does not get the standard input, although that has content.
    pub(super) fn leaves_stdin(&self) -> bool {
        let stdin = io::stdin();
        let Ok(stat) = rustix::fs::fstat(&stdin) else { return false };
        self.is_given()
            && match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => {
                    let at = rustix::fs::tell(&stdin).unwrap_or_default();
                    u64::try_from(stat.st_size).is_ok_and(|size| at < size)
                }
                FileType::Fifo => rustix::io::ioctl_fionread(&stdin).is_ok_and(|bytes| bytes > 0),
                _ => false,
            }
    }

    fn folder_here(&self) -> Result<PathBuf, Failure> {
        let here = std::env::current_dir()
            .map_err(|error| Failure::failed(format!("the current folder cannot be named: {error}; use --cwd DIR")))?;
        Ok(self.cwd.as_ref().map_or_else(|| here.clone(), |folder| here.join(folder)))
    }

    fn variables(&self) -> Result<BTreeMap<String, String>, Failure> {
        let mut variables = BTreeMap::new();
        if self.env_all {
            variables.extend(std::env::vars_os().map(|(name, value)| (os_text(&name), os_text(&value))));
        }
        for argument in self.env.iter().map(|argument| os_text(argument)) {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => {
                    let value = os_bytes(&argument).and_then(std::env::var_os);
                    if value.is_none() {
                        note(&format!(
                            "--env {argument}: this environment has no such variable, so it is not set there"
                        ));
                    }
                    (&*argument, value.map(|value| os_text(&value)))
                }
            };
            if name.is_empty() {
                let argument = in_quotes(&argument);
                return Err(Failure::usage(format!("--env {argument} names no variable; use --env NAME[=VALUE]")));
            }
            variables.extend(value.map(|value| (name.to_owned(), value)));
        }
        Ok(variables)
    }
}

/// What a message can carry to another machine.
fn input(bytes: Vec<u8>) -> Result<String, Failure> {
    const REMEDY: &str = "let the command open a file: llts run --sh 'COMMAND < FILE'";
    if bytes.len() > STDIN_BYTES_MAX {
        return Err(Failure::usage(format!("the standard input has more than {STDIN_BYTES_MAX} bytes; {REMEDY}")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::usage(format!("byte {at} of the standard input is not valid UTF-8; {REMEDY}"))
    })
}

/// Whether stdin is `/dev/null`, which a command gets anyway.
fn is_nothing(stdin: &io::Stdin) -> bool {
    let is_same = |null: std::fs::Metadata| {
        rustix::fs::fstat(stdin)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_char_device() && stat.st_rdev == null.rdev())
    };
    std::fs::metadata("/dev/null").is_ok_and(is_same)
}

/// The words of a command, whose first names a program.
pub(super) fn command_texts(words: &[OsString]) -> Result<Vec<String>, Failure> {
    if words.first().is_some_and(|program| program.is_empty()) {
        return Err(Failure::usage("the command is empty: its program is an empty text"));
    }
    Ok(words.iter().map(|word| os_text(word)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_program_is_refused() {
        let refused = command_texts(&[OsString::new(), "a".into()]).unwrap_err();
        assert!(refused.sentence.contains("the command is empty"), "{}", refused.sentence);
        assert!(command_texts(&["a".into(), OsString::new()]).is_ok());
    }

    #[test]
    fn only_a_short_text_travels_as_input() {
        assert_eq!(input(b"a\0".to_vec()).unwrap(), "a\0");
        for (bytes, sentence) in [(vec![b'x'; STDIN_BYTES_MAX + 1], "65536"), (vec![b'a', 0xff], "byte 1")] {
            assert!(input(bytes).unwrap_err().sentence.contains(sentence));
        }
    }
}
