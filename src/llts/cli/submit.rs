//! `llts submit`: submit a task and print its id.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::Args;
use serde_json::Value;

use super::args;
use super::command::{CommandArgs, or_as_program};
use super::file::{self, FileArgs, LocalFile};
use super::hand_over::hand_over;
use super::parameter;
use super::policy::{self, PolicyArgs};
use super::relations::RelationArgs;
use super::selection::ids;
use crate::map::template::quoted;
use api::wire::requests::submit::Submission;
use base::{Fields, ToolName};
use llts_client::own_key;
use term::exit::Failure;
use term::output::note;
use term::session::Session;
use term::when;
use zmtp::curve_keys;

/// The text of --help after the options.
static HELP: LazyLock<String> = LazyLock::new(|| format!("{}\n\n{}", policy::HELP, when::HELP));

/// The arguments of a command instead of a tool. An argument that only a tool has must exclude both by itself: clap drops the requirement
/// of an excluded argument.
const A_COMMAND: [&str; 2] = ["command", "shell"];

/// The arguments that make up a task; `run` takes the same.
#[derive(Args, Debug)]
pub(super) struct TaskArgs {
    /// The tool to run
    #[arg(value_name = "TOOL", required_unless_present_any = A_COMMAND)]
    #[arg(conflicts_with_all = A_COMMAND)]
    tool: Option<String>,
    #[arg(value_name = "KEY=VALUE", help = parameter::HELP, value_parser = parameter::os_argument())]
    parameters: Vec<String>,
    /// An id of your own, with which to find the task
    #[arg(long, value_name = "ID")]
    given_id: Option<String>,
    /// The parent task; this task ends when the parent ends [default: inside a task, that task]
    #[arg(long, value_name = "TASK")]
    father: Option<String>,
    /// Inside a task: this task goes on when that one ends
    #[arg(long, conflicts_with = "father")]
    no_father: bool,
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
    #[arg(long, value_name = "URL", requires = "tool", conflicts_with_all = A_COMMAND, help_heading = "Fetched program")]
    source: Option<String>,
    /// The SHA-256 of what is fetched
    #[arg(long, value_name = "HEX", requires = "source", conflicts_with_all = A_COMMAND, help_heading = "Fetched program")]
    sha256: Option<String>,
    /// Arguments for run.sh, as sh reads them in the line `./run.sh TEXT`
    #[arg(
        long,
        value_name = "TEXT",
        requires = "source",
        conflicts_with_all = A_COMMAND,
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
    policy: PolicyArgs<false>,
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
    /// The name of the tool, unless the task is a command.
    pub(super) fn tool(&self) -> Option<&str> {
        self.task.tool()
    }
}

impl TaskArgs {
    /// The name of the tool, unless the task is a command.
    pub(super) fn tool(&self) -> Option<&str> {
        self.tool.as_deref()
    }

    /// The submission for a controller on this or another machine.
    pub(super) fn submission(&self, is_elsewhere: bool) -> Result<Submission, Failure> {
        let work = match &self.tool {
            None => self.command.submission(is_elsewhere)?,
            Some(tool) => {
                ToolName::new(tool).map_err(|error| or_as_program(Failure::usage(error.to_string()), tool))?;
                let work = Submission { parameters: self.parameters(tool)?, ..Submission::new(tool) };
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

    /// The parameters of a tool.
    fn parameters(&self, tool: &str) -> Result<Fields, Failure> {
        let parse =
            |text: &String| parameter::parse(text).map_err(|why| Failure::usage(not_a_parameter(tool, text, &why)));
        parameter::collect(&self.parameters.iter().map(parse).collect::<Result<Vec<_>, _>>()?)
    }

    /// Makes the task a child of the one that this process belongs to, unless the user decided otherwise or named another controller.
    /// Then neither outlives the other, and `explain` knows which one waits for which.
    pub(super) fn with_father(&self, session: &Session, mut submission: Submission) -> Submission {
        if submission.parent.is_none() && !self.no_father {
            submission.parent = session.global.named().parent();
        }
        submission
    }

    /// The submission for another machine; a command gets the standard input of this process.
    pub(super) fn submission_with_stdin(&self) -> Result<Submission, Failure> {
        self.command.with_stdin(self.submission(true)?)
    }

    /// The submission for this machine; a command is offered the standard input of this process.
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

/// Advice for a word that is no parameter: most often, it belongs to a command.
fn not_a_parameter(tool: &str, text: &str, why: &str) -> String {
    let [tool, word] = [tool, text].map(quoted);
    if text.contains('=') {
        return format!("the parameter {word}: {why}");
    }
    let verb = args::verb().unwrap_or_else(|| "run".to_owned());
    format!(
        "the first word here is a tool, and {word} is not a parameter for it, which has a '='. For a command write: \
         llts {verb} -- {tool} {word}   For a line of shell: llts {verb} --sh '{tool} {word} | wc'"
    )
}

pub(super) fn run(session: &mut Session, args: &SubmitArgs) -> Result<u8, Failure> {
    let submission = args.task.with_father(session, args.task.submission(session.is_elsewhere()?)?);
    let submission = if args.stdin { args.task.command.with_stdin(submission)? } else { submission };
    if !args.stdin && args.task.command.leaves_stdin() {
        note(
            "the command does not get the standard input of llts submit; send it along with --stdin, or use < /dev/null",
        );
    }
    let files = args.task.read_files()?;
    let submission = args.task.with_files(submission, &files)?;
    let client = session.client()?;
    let submission = ids::with_whole(&client, submission)?;
    let submitted = match file::prepare(&session.config, &client, &submission, &files)? {
        Some(submitted) => submitted,
        None => hand_over(&client, &submission)?,
    };
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
    use clap::{Arg, Args as _, Command, FromArgMatches as _};

    use super::*;

    /// What is sent for some words; `None` if they are refused.
    fn sent(words: &[String], option: &str) -> Option<Submission> {
        let command = TaskArgs::augment_args(Command::new("submit").no_binary_name(true));
        let task = TaskArgs::from_arg_matches(&command.try_get_matches_from(words).ok()?).ok()?;
        let files = task.read_files().ok()?;
        let mut sent = task.with_files(task.submission(false).ok()?, &files).ok()?;
        if option != "submit_key" {
            // It is made at random.
            sent.submit_key = None;
        }
        Some(sent)
    }

    /// An option with a value that it accepts.
    fn sample(option: &Arg) -> String {
        let value = match option.get_value_names().and_then(<[_]>::first).map(clap::builder::Str::as_str) {
            _ if !option.get_action().takes_values() => String::new(),
            Some("N") => "=7".to_owned(),
            Some("DURATION") => "=7s".to_owned(),
            Some("MOMENT") => "=+7m".to_owned(),
            Some("true|false") => "=true".to_owned(),
            Some("SIGNAL") => "=INT".to_owned(),
            Some("NAME[=VALUE]") => "=A=1".to_owned(),
            Some("DIR") => "=/".to_owned(),
            Some("[NAME=]PATH") => "=Cargo.toml".to_owned(),
            Some("URL" | "tcp://IP:PORT") => "=tcp://127.0.0.1:7".to_owned(),
            _ => "=a".to_owned(),
        };
        format!("--{}{value}", option.get_long().expect("it is no positional argument"))
    }

    #[test]
    fn no_option_is_accepted_and_dropped() {
        const FORMS: [&[&str]; 4] =
            [&["tool"], &["--source=http://127.0.0.1/a.tar.gz", "tool"], &["--sh=true"], &["--", "true"]];
        // It needs a file with a key, and the other one concerns the process that submits.
        const OTHERS: [&str; 2] = ["address_key_file", "no_father"];
        let command = TaskArgs::augment_args(Command::new("submit"));
        let is_tried = |option: &&Arg| option.get_long().is_some() && !OTHERS.contains(&option.get_id().as_str());
        for option in command.get_arguments().filter(is_tried) {
            let id = option.get_id().as_str();
            let mut accepted = 0;
            for form in FORMS {
                let needed: &[&str] = match id {
                    "PUSH_ACK" => &["--address=tcp://127.0.0.1:7"],
                    "job_push" => &["--address=tcp://127.0.0.1:7", "--job=a"],
                    "job_max_fails" => &["--job=a"],
                    _ => &[],
                };
                let plain: Vec<String> = needed.iter().chain(form).map(|word| (*word).to_owned()).collect();
                let with = [vec![sample(option)], plain.clone()].concat();
                if let Some(with_it) = sent(&with, id) {
                    accepted += 1;
                    assert_ne!(Some(with_it), sent(&plain, id), "{with:?} drops --{id}");
                }
            }
            assert!(accepted > 0 || A_COMMAND.contains(&id), "{} is refused in every form", sample(option));
        }
    }
}
