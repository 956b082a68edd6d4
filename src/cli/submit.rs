//! `llts submit`: submit a task and print its id.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::Args;
use serde_json::Value;

use super::Session;
use super::command::CommandArgs;
use super::exit::Failure;
use super::file::{self, FileArgs, LocalFile};
use super::output::note;
use super::parameter::{self, Parameter};
use super::policy::{self, PolicyArgs};
use super::relations::RelationArgs;
use super::when;
use crate::client::{Client, ClientError};
use crate::protocol::requests::submit::{Submission, Submitted};
use crate::shell::{clock, curve_keys};
use crate::types::{Mono, Now, Policy, PolicyField, PolicySlot, Scalar, Skew, TaskId, ToolName};

/// The text of --help after the options.
static HELP: LazyLock<String> = LazyLock::new(|| format!("{}\n\n{}", policy::HELP, when::HELP));

/// The arguments that make up a task; `run` takes the same.
#[derive(Args, Debug)]
pub(super) struct TaskArgs {
    /// The tool to run
    #[arg(value_name = "TOOL", required_unless_present_any = ["command", "shell"])]
    #[arg(conflicts_with_all = ["command", "shell"])]
    tool: Option<String>,
    #[arg(value_name = "KEY=VALUE", help = parameter::HELP, value_parser = parameter::parser())]
    parameters: Vec<Parameter>,
    /// An id of your own, with which to find the task
    #[arg(long, value_name = "ID")]
    given_id: Option<String>,
    /// The parent task; this task ends when the parent ends
    #[arg(long, value_name = "TASK")]
    father: Option<String>,
    /// Address that state changes are pushed to: a DEALER socket that you have bound
    #[arg(long, value_name = "tcp://IP:PORT")]
    address: Option<String>,
    /// The public key of that socket, as made by `llts keys new`: pushes then use CURVE only
    #[arg(long, value_name = "FILE", requires = "address")]
    address_key_file: Option<PathBuf>,
    /// Submitting the same task again with the same key returns the first one
    #[arg(long, value_name = "KEY", help_heading = "Policy")]
    submit_key: Option<String>,
    /// Where its agent fetches the program, in place of an installed tool: see `[source]` of the configuration
    #[arg(long, value_name = "URL", requires = "tool", help_heading = "Fetched program")]
    source: Option<String>,
    /// The SHA-256 of what is fetched
    #[arg(long, value_name = "HEX", requires = "source", help_heading = "Fetched program")]
    sha256: Option<String>,
    /// Arguments for run.sh, as sh reads them in the line `./run.sh TEXT`
    #[arg(
        long,
        value_name = "TEXT",
        requires = "source",
        allow_hyphen_values = true,
        help_heading = "Fetched program"
    )]
    input: Option<OsString>,
    #[command(flatten)]
    command: CommandArgs,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    relations: RelationArgs,
    #[command(flatten)]
    policy: PolicyArgs,
}

#[derive(Args, Debug)]
#[command(after_help = HELP.as_str())]
pub(super) struct SubmitArgs {
    #[command(flatten)]
    task: TaskArgs,
    /// Send the standard input along, which the command gets: at most 64 KiB of text
    #[arg(long, conflicts_with = "tool", help_heading = "Command")]
    stdin: bool,
}

impl SubmitArgs {
    /// The tool to run, if it is one.
    pub(super) fn tool(&self) -> Option<&str> {
        self.task.tool()
    }
}

impl TaskArgs {
    /// The tool to run, if it is one.
    pub(super) fn tool(&self) -> Option<&str> {
        self.tool.as_deref()
    }

    /// The submission for a controller of this machine, or of another one.
    pub(super) fn submission(&self, is_elsewhere: bool) -> Result<Submission, Failure> {
        let work = match &self.tool {
            None => self.command.submission(is_elsewhere)?,
            Some(tool) => {
                ToolName::new(tool).map_err(|error| Failure::usage(error.to_string()))?;
                let work = Submission { parameters: parameter::collect(&self.parameters)?, ..Submission::new(tool) };
                match &self.source {
                    Some(source) => {
                        work.fetched(source, self.sha256.as_deref(), self.input.as_deref().map(OsStr::as_bytes))
                    }
                    None => work.requiring_tool(),
                }
            }
        };
        let submission = Submission {
            given_id: self.given_id.clone(),
            parent: self.father.clone(),
            address: self.address.clone(),
            address_key: self.key()?,
            submit_key: Some(self.submit_key.clone().unwrap_or_else(own_key)),
            ..work
        };
        let submission = self.relations.relate(submission);
        let demands = self.policy.0.iter().cloned();
        Ok(demands.fold(submission, |submission, (field, value)| submission.demanding(field, value)))
    }

    /// The same for another machine, with the standard input of this process for a command.
    pub(super) fn submission_with_stdin(&self) -> Result<Submission, Failure> {
        self.command.with_stdin(self.submission(true)?)
    }

    /// The same for this machine, with the standard input of this process for a command.
    pub(super) fn submission_with_streams(&self, users: Vec<u32>) -> Result<Submission, Failure> {
        self.command.with_streams(self.submission(false)?, users)
    }

    /// The same for this machine, for a command on a terminal with this name.
    pub(super) fn submission_on_terminal(&self, name: &str) -> Result<Submission, Failure> {
        self.command.on_terminal(self.submission(false)?, name)
    }

    /// Reads the files that the task gets.
    pub(super) fn read_files(&self) -> Result<Vec<LocalFile>, Failure> {
        if !self.files.is_empty() && self.command.names_folder() {
            return Err(Failure::usage(
                "--cwd excludes --in and --out: their files are in the folder of the task, where it starts",
            ));
        }
        self.files.read()
    }

    /// Names the files of the task in its submission.
    pub(super) fn with_files(&self, submission: Submission, files: &[LocalFile]) -> Result<Submission, Failure> {
        if self.files.is_empty() { Ok(submission) } else { self.files.attach(submission, files) }
    }

    /// Whether files are to be kept with the task.
    pub(super) fn has_outputs(&self) -> bool {
        self.files.has_outputs()
    }

    fn key(&self) -> Result<Option<String>, Failure> {
        let key = self.address_key_file.as_deref().map(curve_keys::public).transpose();
        Ok(key.map_err(|error| Failure::usage(error.to_string()))?.map(|key| key.to_string()))
    }
}

/// The start of the keys that this program makes for submits without one.
const OWN_KEY: &str = "llts ";

/// A key for one submit: it can be repeated after a lost answer, and makes one task all the same.
pub(super) fn own_key() -> String {
    format!("{OWN_KEY}{:032x}", rand::random::<u128>())
}

/// A sentence for a task with a moment of the clock, if the clocks differ: its id has the time of the controller.
fn told_skew(submission: &Submission, submitted: &Submitted, sent: Mono, now: Now) -> Option<String> {
    let is_moment = |field: &PolicyField| {
        matches!(field.slot, PolicySlot::Moment(..)) && is_number(submission.parameters.get(field.word))
    };
    let at = submitted.id.parse::<TaskId>().ok().filter(|_| !submitted.duplicate)?.wall();
    let uncertainty = now.mono.since(sent) / 2;
    let skew = Skew::between(now.wall.before(uncertainty), at);
    (Policy::FIELDS.iter().any(is_moment) && skew.is_above(uncertainty)).then(|| {
        format!(
            "the clock of this machine is {skew} that of the controller, which starts and ends tasks by its own clock"
        )
    })
}

fn is_number(value: Option<&Scalar>) -> bool {
    value.is_some_and(|value| value.as_f64().is_some())
}

/// Submits a task, and prints the warnings about it.
pub(super) fn hand_over(client: &Client, submission: &Submission) -> Result<Submitted, Failure> {
    let key = submission.submit_key.as_deref().unwrap_or_default();
    let sent = clock::now().mono;
    let mut submitted = client.ask_repeatably(&submission.request()).map_err(|error| unanswered(client, key, error))?;
    let skew = told_skew(submission, &submitted, sent, clock::now());
    skew.iter().for_each(|said| note(said));
    // Only a repetition of this one has the same key.
    submitted.duplicate &= !key.starts_with(OWN_KEY);
    let duplicate = submitted.duplicate.then_some("a task was submitted before with this key; this is its id");
    submitted.warning.as_deref().into_iter().chain(duplicate).for_each(note);
    Ok(submitted)
}

/// The failure of a submit. One that was sent may have been accepted.
pub(super) fn unanswered(client: &Client, key: &str, error: ClientError) -> Failure {
    let may_be_accepted = matches!(error, ClientError::NoController { .. }) && client.has_sent();
    let Failure { exit, sentence } = error.into();
    if may_be_accepted {
        let advice = format!(
            "it was sent, and may have been accepted: repeat it with --submit-key \"{key}\", which cannot double it"
        );
        return Failure::new(exit, format!("{sentence}; {advice}"));
    }
    Failure::new(exit, sentence)
}

pub(super) fn run(session: &mut Session, args: &SubmitArgs) -> Result<u8, Failure> {
    let submission = args.task.submission(session.is_elsewhere()?)?;
    let submission = if args.stdin { args.task.command.with_stdin(submission)? } else { submission };
    if !args.stdin && args.task.command.leaves_stdin() {
        note(
            "the command does not get the standard input of llts submit; send it along with --stdin, or use < /dev/null",
        );
    }
    let files = args.task.read_files()?;
    let submission = args.task.with_files(submission, &files)?;
    let client = session.client()?;
    file::send(&session.config, &client, &files)?;
    let submitted = hand_over(&client, &submission)?;
    if session.out.is_json() {
        session.out.value(&serde_json::json!({
            "task": submitted.id,
            "duplicate": submitted.duplicate,
            "warning": submitted.warning.map_or(Value::Null, Value::String),
        }));
    } else {
        session.out.line(&submitted.id);
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::words;
    use crate::types::Wall;

    #[test]
    fn a_moment_of_another_clock_is_told() {
        let submitted = Submitted { id: "TASK_1480000000.000000_AZazA".to_owned(), duplicate: false, warning: None };
        let now = |seconds: u64| Now { mono: Mono::from_nanos(0), wall: Wall::from_micros(seconds * 1_000_000) };
        let at = Submission::new("t").with(words::START_AFTER, 1_480_009_000.0);
        let said = |submission, seconds| told_skew(submission, &submitted, Mono::from_nanos(0), now(seconds));
        assert_eq!(said(&at, 1_480_000_000), None);
        assert!(said(&at, 1_480_003_600).unwrap().contains("is 3600.0 s ahead of that of the controller"));
        let ahead = Submission::new("t").with(words::START_AFTER, "+5");
        assert_eq!(said(&ahead, 1_480_003_600), None, "it is by the clock of the controller");
    }
}
