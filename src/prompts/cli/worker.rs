//! `llts prompt worker`: run a command for each prompt of a master, until the master has ended, or until Ctrl-C.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use clap::Args;

use crate::files::crew;
use crate::worker::engine::signs::Signs;
use crate::worker::engine::{BrakeSettings, End, Settings, Tally};
use crate::worker::process::{self, PromptWorkerError, Work, Workdir};
use api::config::Durability;
use proc::logging;
use proc::runs::RunsError;
use proc::worker::WorkerStartError;
use term::exit;
use term::exit::Failure;
use term::output::note;
use term::session::Session;

const COMMAND: &str = "\
The command runs in DIR, once for each prompt. It finds the prompt on its standard input
and in the file PROMPT_FILE, and the name of the prompt in PROMPT_NAME.
    {{prompt}}      in an argument of the command: the prompt; {{name}} and {{file}} the same of
                    PROMPT_NAME and PROMPT_FILE. In the script of sh -c it is quoted for the place
                    where it stands, also in quotes; where it cannot be, the command is refused.
                    {{raw:prompt}} is not quoted; {{sh:prompt}} is quoted anywhere
    exit code 0     DONE
    exit code 75    USAGE_LIMITED: the prompt waits again, and the worker works again
                    after a pause; the command may write retry_after=SECONDS to the
                    file PROMPT_DEFER_FILE
    anything else   FAILED; USAGE_LIMITED if its last lines, or an error in JSON, say
                    that a limit is reached, with the reset time that they name
Its output is in DIR/.tasks/done/ or failed/, as NAME.out, NAME.err and NAME.json, before
the prompt NAME gets there. Ctrl-C ends the command and gives the prompt back; a second
Ctrl-C gives the command no time to end.

Exits with 0 when the master says that all is done, after Ctrl-C, or with --patience 0 when the
connection ends, but with 1 if a prompt failed; 1 also if the command cannot be run, which
gives the prompt back; 2 if there is no such command or folder; 3 if no master was found, or
none came back in time; 4 if it refused, 75 with --end-when-limited.";

#[derive(Args, Debug)]
#[command(after_help = COMMAND)]
pub(crate) struct WorkerArgs {
    /// The master's host
    #[arg(default_value = "localhost")]
    host: String,
    /// The master's port [default: prompt.PORT]
    port: Option<u16>,
    /// The folder with .tasks/, in which the command runs [default: prompt.ROOT_DIR]
    #[arg(long, value_name = "DIR")]
    root_dir: Option<PathBuf>,
    /// How long to look for a missing master, with or without one before; 0 ends with the connection [default: prompt_worker.PATIENCE]
    #[arg(long, value_name = "SECONDS|forever", value_parser = patience)]
    patience: Option<Patience>,
    /// The folder of each run: DIR for all, a copy of DIR that is removed afterwards, or a worktree of the git repository
    /// that DIR is in, whose changes stay on a branch llts/NAME-START
    #[arg(long, value_name = "shared|copy|git-worktree", default_value = "shared", value_parser = workdir, hide_default_value = true)]
    workdir: Workdir,
    /// Number of workers; each is a process of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    jobs: u32,
    /// The process that has started this worker with others, and whose end is its end
    #[arg(long, hide = true, value_name = "PID")]
    crew_of: Option<u32>,
    /// Pattern of a message that a limit is reached, instead of the known ones; can be repeated
    #[arg(long, value_name = "REGEX")]
    limited_by: Vec<String>,
    /// The service behind the command: a limit holds up all workers with the same one [default: the command, if it is
    /// claude, codex, gemini, or one of limits.toml]
    #[arg(long, value_name = "NAME", value_parser = gate)]
    gate: Option<String>,
    /// Connect without the keys of this home: for an original master
    #[arg(long)]
    plain: bool,
    /// End after USAGE_LIMITED instead of joining again
    #[arg(long)]
    end_when_limited: bool,
    /// The command to run for each prompt
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The wording of further services, in a home.
const LIMITS_FILE: &str = "limits.toml";

/// The longest absence of a master; `None` is without limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Patience(pub(super) Option<Duration>);

pub(crate) fn run(session: &Session, args: WorkerArgs) -> Result<u8, Failure> {
    let config = &session.config;
    if args.jobs > 1 {
        logging::init(&config.log, None).map_err(Failure::failed)?;
        if args.workdir == Workdir::Shared {
            note("all runs work in one folder at once; --workdir copy or git-worktree gives each a folder of its own");
        }
        let arguments = without_jobs(std::env::args_os().skip(1));
        return crew::run(&Session::program()?, &arguments, args.jobs)
            .map_err(|error| Failure::failed(format!("cannot run {} workers: {error}", args.jobs)));
    }
    logging::init(&config.log, None).map_err(Failure::failed)?;
    args.crew_of.map(crew::end_with).transpose().map_err(Failure::failed)?;
    let section = &config.prompt_worker;
    let patience = args.patience.map_or(section.patience, |Patience(time)| time);
    let signs = signs(session, &args.limited_by)?;
    let settings = Settings {
        secret: config.prompt.secret.clone(),
        patience,
        join_timeout: section.join_timeout,
        reconnect_interval_max: section.reconnect_interval_max,
        limited_pause: section.limited_pause,
        gate: args.gate.clone().or_else(|| known_gate(&signs, &args.command)),
        brake: BrakeSettings { fails: section.brake_fails, quick: section.brake_time, pause_max: section.pause_max },
        ends_when_limited: args.end_when_limited,
        kill_interval: section.kill_interval,
        straggler_grace: section.straggler_grace,
    };
    let WorkerArgs { host, port, root_dir, command, plain, workdir, .. } = args;
    let root = super::root(session, root_dir.as_deref());
    let mut master = super::server(session, &host, port)?;
    master.keys.take_if(|_| plain);
    let name = format!("{host}:{}", master.port);
    let durable = config.controller.durability == Durability::Disk;
    let work = Work { master, root, command, settings, durable, signs, workdir };
    let (end, Tally { all, failed }) = process::run(work, session.guard()?).map_err(|error| match error {
        PromptWorkerError::Command(_)
        | PromptWorkerError::Template(_)
        | PromptWorkerError::Root { .. }
        | PromptWorkerError::Workdir(_)
        | PromptWorkerError::Start(WorkerStartError::Runs(RunsError::Folder { .. })) => {
            Failure::usage(error.to_string())
        }
        error => Failure::failed(error),
    })?;
    if let (End::Completed, Some(crew)) = (&end, args.crew_of) {
        crew::report_all_done(crew);
    }
    match end {
        End::MasterGone if patience != Some(Duration::ZERO) => {
            let sentence =
                format!("gave up looking for the prompt master at {name}, which has not said that all is done");
            Err(Failure::new(exit::NO_CONTROLLER, sentence))
        }
        End::Stopped | End::Completed | End::MasterGone if failed > 0 => {
            Err(Failure::failed(format!("{failed} of {all} prompts failed")))
        }
        End::Stopped | End::Completed | End::MasterGone => Ok(0),
        End::NoMaster(reason) => {
            let sentence = format!("no prompt master answers at {name}: {reason}");
            Err(Failure::new(exit::NO_CONTROLLER, sentence))
        }
        End::Refused(reason) => {
            Err(Failure::new(exit::REFUSED, format!("the prompt master at {name} refuses this worker: {reason}")))
        }
        End::Limited(pause) => {
            let sentence = format!("the service behind the command is limited for {} s", pause.as_secs_f64());
            Err(Failure::new(exit::LIMITED, sentence))
        }
        End::CannotRun(reason) => Err(Failure::failed(format!("{reason}; its prompt was given back"))),
    }
}

/// The arguments of one of several workers.
fn without_jobs(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            kept.push(argument);
            break;
        } else if argument == "--jobs" {
            // The value of `--jobs`.
            arguments.next();
        } else if !argument.as_encoded_bytes().starts_with(b"--jobs=") {
            kept.push(argument);
        }
    }
    kept.extend(arguments);
    kept
}

/// The patterns of limits: those of the program, with those of the home or in their place.
fn signs(session: &Session, limited_by: &[String]) -> Result<Signs, Failure> {
    let file = session.home.folder().join(LIMITS_FILE);
    let own = match fs::read_to_string(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        read => Some(read.map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?),
    };
    let signs = Signs::new(own.as_deref());
    let signs = signs.map_err(|problem| Failure::usage(format!("{}: {}", file.display(), problem.trim_end())))?;
    signs.limited_by(limited_by).map_err(|problem| Failure::usage(format!("--limited-by: {problem}")))
}

/// The gate of a command line whose limits belong to an account.
fn known_gate(signs: &Signs, command: &[OsString]) -> Option<String> {
    let name = Path::new(command.first()?).file_name()?.to_str()?;
    signs.has_wording_of(name).then(|| name.to_owned())
}

fn workdir(text: &str) -> Result<Workdir, String> {
    let found = Workdir::WORDS.into_iter().find(|(word, _)| *word == text);
    found.map(|(_, workdir)| workdir).ok_or_else(|| "it is none of shared, copy and git-worktree".to_owned())
}

fn gate(text: &str) -> Result<String, String> {
    if (1..=64).contains(&text.len()) { Ok(text.to_owned()) } else { Err("it must have 1 to 64 bytes".to_owned()) }
}

pub(super) fn patience(text: &str) -> Result<Patience, String> {
    if text == "forever" {
        return Ok(Patience(None));
    }
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .map(|time| Patience(Some(time)))
        .ok_or_else(|| "it is neither \"forever\" nor a number of seconds".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_several_workers_has_no_jobs_and_its_command_is_left_alone() {
        let kept = |line: &str| without_jobs(line.split(' ').map(OsString::from)).join(std::ffi::OsStr::new(" "));
        assert_eq!(kept("prompt worker --jobs 3 host -- make --jobs 4"), "prompt worker host -- make --jobs 4");
        assert_eq!(kept("prompt worker --jobs=3 -- x"), "prompt worker -- x");
    }

    #[test]
    fn patience_is_a_time_or_has_no_end() {
        assert_eq!(patience("forever"), Ok(Patience(None)));
        assert_eq!(patience("0"), Ok(Patience(Some(Duration::ZERO))));
        assert_eq!(patience("0.5"), Ok(Patience(Some(Duration::from_millis(500)))));
        for text in ["", "ever", "-1", "nan", "inf"] {
            assert!(patience(text).is_err(), "{text}");
        }
    }
}
