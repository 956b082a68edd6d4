//! `llts map`: a command for each line of the input.
//!
//! The engine [`map`](crate::map) makes the decisions; the loop here carries them out.

mod bar;
mod input;
mod outputs;
mod results;
mod running;
mod summary;
mod take_up;
mod template;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::command::CommandArgs;
use super::host::{HostArgs, at_controller};
use super::parameter::os_argument;
use super::policy::PolicyArgs;
use crate::map::tally::Tally;
use crate::map::template::Filling;
use proc::signals::{STOP, Signals};
use term::exit;
use term::exit::Failure;
use term::output::note;
use term::session::Session;

use input::Input;
use template::Prepared;

/// The word that separates the command from the values, and the sources from each other.
pub(super) const SOURCE: &str = ":::";

/// The exit code of a map that cannot go on, as that of GNU parallel.
pub(super) const FAILED: u8 = 255;

#[derive(Args, Debug)]
#[command(after_help = "\
Runs the command once for each line of the standard input: `seq 1000 | llts map -- sh -c 'echo $(( $1 * 2 ))' _ {}`. The lines \
can also be those of a file, or values behind `:::`: `llts map -- convert {} {.}.png ::: *.jpg`. Several `:::` give all combinations.
Placeholders: {} the line, {.} without its extension, {/} its last part, {//} its folder, {/.} its last part without the extension, \
{#} the number of the task; {1}, {2.}, … the same of one column or source. A command without one gets the line as its last \
argument. In a line for sh (--sh) and in the script of sh -c, a value is quoted for the place where it stands, also in quotes; \
where it cannot be, the command is refused.
The outputs of a task are printed together when it has finished: stdout, then stderr. A terminal also shows the progress.
The tasks are a job, which `llts job NAME` shows. With --job NAME, the same command again runs only the lines that have not succeeded. \
Ctrl-C starts nothing more and waits for the running tasks; a second one ends them. If the terminal closes, the service goes on; \
`llts wait --job NAME` waits for it.
Exits with the number of failed tasks, 101 for more than 100, 130 after Ctrl-C, 255 if it cannot go on; at least 1 if bytes of \
an output are missing.")]
pub(super) struct MapArgs {
    /// A tool in place of a command; placeholders stand in its parameters
    #[arg(long, id = "tool", value_name = "TOOL", conflicts_with = "shell")]
    tool: Option<String>,
    #[arg(value_name = "KEY=VALUE", help = "Parameters of the tool; ::: and the values behind it")]
    words: Vec<OsString>,
    /// The first `:::` and everything behind it.
    #[arg(skip)]
    pub(super) values: Vec<OsString>,
    /// Read the lines from a file; - is the standard input
    #[arg(short, long, value_name = "FILE", help_heading = "Input")]
    arg_file: Option<PathBuf>,
    /// Lines end with NUL instead of a line feed, as `find -print0` writes them
    #[arg(short = '0', long, help_heading = "Input")]
    null: bool,
    /// Cut each line into columns at this text; \t is a tab
    #[arg(short = 'C', long, value_name = "TEXT", value_parser = os_argument(), allow_hyphen_values = true, help_heading = "Input")]
    colsep: Option<String>,
    /// The text that stands for the line, in place of {}
    #[arg(
        short = 'I',
        long,
        value_name = "TEXT",
        default_value = "{}",
        hide_default_value = true,
        value_parser = os_argument(),
        help_heading = "Input"
    )]
    replace: String,
    /// Number of tasks of this map that run at once [default: as many as there are agents]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Number of further runs of a task that fails or times out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32))]
    retries: Option<u32>,
    /// Stop when this number of tasks have failed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_fails: Option<u32>,
    /// A name for the tasks; given again, only those that have not succeeded are run
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Print the commands instead of running them
    #[arg(long)]
    dry_run: bool,
    /// Print the outputs in the order of the lines
    #[arg(short, long, help_heading = "Output")]
    keep_order: bool,
    /// Begin each line of an output with the values of the task and a tab
    #[arg(long, help_heading = "Output")]
    tag: bool,
    /// Also write the outputs to DIR/<number>/stdout and stderr, with the command and the exit code beside them
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    results: Option<PathBuf>,
    /// Show the progress also where stderr is not a terminal
    #[arg(long, help_heading = "Output")]
    progress: bool,
    #[command(flatten)]
    command: CommandArgs,
    #[command(flatten)]
    policy: PolicyArgs<true>,
    #[command(flatten)]
    host: HostArgs,
}

pub(super) fn run(session: &mut Session, args: &MapArgs) -> Result<u8, Failure> {
    let prepared = Prepared::new(session, args)?;
    if args.dry_run {
        let input = prepared.input(args)?;
        return dry_run(session, &prepared, input);
    }
    // Before the client starts threads of its own.
    let mut signals = Signals::install(&STOP).map_err(Failure::failed)?;
    at_controller(session, &mut signals, args.host, args.jobs, |session, signals, place| {
        running::run(session, signals, place, args, prepared)
    })
}

/// Gives a failure of a map the exit code of GNU parallel.
pub(super) fn with_its_code(failure: Failure) -> Failure {
    match failure.exit {
        exit::INTERRUPTED | exit::BROKEN_PIPE => failure,
        _ => Failure { exit: FAILED, ..failure },
    }
}

/// A task of a dry run, for people or for programs.
enum Planned {
    Line(String),
    Task(Value),
}

fn dry_run(session: &mut Session, prepared: &Prepared, mut input: Input) -> Result<u8, Failure> {
    let mut tally = Tally::default();
    let mut number = 0;
    while let Some(line) = input.wait().map_err(cannot_read)? {
        number += 1;
        let is_json = session.out.is_json();
        let shown = line.and_then(|values| {
            let filling = Filling { values: &values, number };
            if is_json {
                prepared.planned(filling).map(Planned::Task)
            } else {
                prepared.work.shown(filling).map(Planned::Line)
            }
        });
        match shown {
            Ok(Planned::Line(line)) => session.out.os_line(&line),
            Ok(Planned::Task(task)) => session.out.value(&task),
            Err(why) => {
                note(&format!("line {number}: {why}"));
                tally.failed += 1;
            }
        }
        if session.out.is_broken() {
            return Ok(exit::BROKEN_PIPE);
        }
    }
    Ok(tally.exit_code(false))
}

#[expect(clippy::needless_pass_by_value, reason = "map_err hands the error over")]
fn cannot_read(error: std::io::Error) -> Failure {
    Failure::failed(format!("cannot read the input: {error}"))
}
