//! A plain command in place of a tool, for `llts submit` and `llts run`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _, Read as _};
use std::path::PathBuf;

use clap::Args;

use super::exit::Failure;
use crate::protocol::command::{STDIN_BYTES_MAX, Surroundings};
use crate::protocol::requests::submit::Submission;
use crate::shell::privacy;

/// Characters of a refused text that its refusal repeats.
const SHOWN_CHARS_MAX: usize = 40;

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

impl CommandArgs {
    /// The command. One for this machine has the working directory and the umask of this process; one for another machine
    /// has those that are named.
    pub(super) fn submission(&self, is_elsewhere: bool) -> Result<Submission, Failure> {
        let submission = match &self.shell {
            Some(line) => Submission::shell(text("the line for sh", line)?),
            None => {
                let words = self.command.iter().map(|word| text("an argument of the command", word));
                Submission::command(&words.collect::<Result<Vec<_>, _>>()?)
            }
        };
        let folder = if is_elsewhere { self.cwd.clone() } else { Some(self.folder_here()?) };
        Ok(submission.surrounded(&Surroundings {
            folder: folder.map(|folder| text("the working directory", folder.as_os_str())).transpose()?,
            umask: (!is_elsewhere).then(privacy::umask_at_start),
            environment: self.variables()?,
        }))
    }

    /// Adds the standard input of this process, which the command gets as a whole. That of a terminal is not waited for.
    pub(super) fn with_stdin(&self, submission: Submission) -> Result<Submission, Failure> {
        let stdin = io::stdin();
        let is_command = self.shell.is_some() || !self.command.is_empty();
        if !is_command || stdin.is_terminal() {
            return Ok(submission);
        }
        let mut bytes = Vec::new();
        // One byte more, so that a longer input is detected.
        let read = stdin.lock().take(STDIN_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|error| Failure::failed(format!("cannot read the standard input: {error}")))?;
        if bytes.len() > STDIN_BYTES_MAX {
            return Err(Failure::usage(format!(
                "the standard input has more than {STDIN_BYTES_MAX} bytes; let the command open a file: \
                 llts run --sh 'COMMAND < FILE'"
            )));
        }
        if bytes.is_empty() {
            return Ok(submission);
        }
        let input = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Failure::usage(format!(
                "byte {at} of the standard input is not valid UTF-8; let the command open a file: llts run --sh 'COMMAND < FILE'"
            ))
        })?;
        Ok(submission.reading(input))
    }

    fn folder_here(&self) -> Result<PathBuf, Failure> {
        let here = std::env::current_dir()
            .map_err(|error| Failure::failed(format!("the current folder cannot be named: {error}; use --cwd DIR")))?;
        Ok(self.cwd.as_ref().map_or_else(|| here.clone(), |folder| here.join(folder)))
    }

    fn variables(&self) -> Result<BTreeMap<String, String>, Failure> {
        let mut variables = BTreeMap::new();
        if self.env_all {
            for (name, value) in std::env::vars_os() {
                variables.insert(text("the name of a variable", &name)?, text("a variable", &value)?);
            }
        }
        for argument in &self.env {
            let argument = text("a variable", argument)?;
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                // A variable that is not set here is not set there.
                None => (&*argument, std::env::var_os(&argument).map(|value| text("a variable", &value)).transpose()?),
            };
            if name.is_empty() {
                return Err(Failure::usage(format!("--env {argument:?} names no variable; use --env NAME[=VALUE]")));
            }
            variables.extend(value.map(|value| (name.to_owned(), value)));
        }
        Ok(variables)
    }
}

/// JSON has no place for other bytes than those of a text.
fn text(name: &str, bytes: &OsStr) -> Result<String, Failure> {
    let text = bytes.to_str();
    let begin = || bytes.to_string_lossy().chars().take(SHOWN_CHARS_MAX).collect::<String>();
    let message =
        || Failure::usage(format!("{name} is not valid UTF-8: it begins with {:?}; put it into a script", begin()));
    text.map(str::to_owned).ok_or_else(message)
}
