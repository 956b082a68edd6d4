//! `llts tdf worker NAME CFG`: run the tasks of a namespace, one at a time, until Ctrl-C.

use clap::Args;

use crate::engine::worker::{End, Settings};
use crate::shell::worker;
use crate::shell::worker::{TdfWorkerError, Work};
use agent::source::Timeouts;
use api::config::WorkerConfig;
use base::tdf::WorkerName;
use proc::logging;
use term::exit::Failure;
use term::output::note;
use term::session::Session;

const ABOUT: &str = "\
The worker claims one open task at a time and runs
    /bin/sh -c 'cd ./PROGRAM/; ./run.sh INPUT'
in the present folder, where PROGRAM is fetched to from SOURCE if it is not there. What
the program writes to stdout is its output; a task whose program writes to stderr has
failed, whatever it exits with. When it ends, all that it has started is ended.

CFG needs [redis], [tdf] and
    [worker]
    task_output_filename=$program/results/$worker-$taskId-$round.out
    task_error_filename=$program/results/$worker-$taskId-$round.err
    sleep_after_success=0.1
    sleep_after_failure=0.5
    sleep_after_no_process_claimed=2.0

Ctrl-C ends the program and gives its task back: it waits again in the same round. A
second Ctrl-C gives the program no time to end. While Redis is away, the program goes on
and its result waits on the disk; the next worker of this name reports it.

Exits with 0 after Ctrl-C; 1 if it cannot start or can run nothing; 3 if Redis is away at
the start, 4 if it refuses.";

/// What the two arguments are.
const ARGUMENTS: [&str; 2] =
    ["NAME: the name of this worker, which no other one has", "CFG: the path of its configuration file (worker.cfg)"];

#[derive(Args, Debug)]
#[command(after_help = ABOUT, override_usage = "llts tdf worker [OPTIONS] NAME CFG")]
pub(crate) struct WorkerArgs {
    /// The name of the worker, and the path of its configuration file
    #[arg(value_name = "NAME CFG")]
    arguments: Vec<String>,
}

pub(crate) fn run(session: &Session, args: &WorkerArgs) -> Result<u8, Failure> {
    let [name, file] = super::exactly(&args.arguments, ARGUMENTS)?;
    let name = WorkerName::new(name).map_err(Failure::failed)?;
    let config = WorkerConfig::load(file.as_ref()).map_err(Failure::failed)?;
    config.tdf.warnings.iter().for_each(|warning| note(warning));
    logging::init(&session.config.log, None).map_err(Failure::failed)?;
    let section = &session.config.tdf_worker;
    let settings = Settings {
        pause_after_success: config.sleep_after_success,
        pause_after_failure: config.sleep_after_failure,
        poll_interval: config.sleep_after_no_process_claimed,
        kill_interval: section.kill_interval,
        straggler_grace: section.straggler_grace,
    };
    let root =
        std::env::current_dir().map_err(|error| Failure::failed(format!("cannot find the present folder: {error}")))?;
    let max_losses = session.config.tdf.max_losses;
    let source = &session.config.source;
    let timeouts = Timeouts { fetch: source.fetch_timeout, silence: source.silence_timeout };
    let limits = session.config.archive.clone();
    let work =
        Work { name, config, root, limits, timeouts, output_bytes_max: section.output_bytes_max, max_losses, settings };
    match worker::run(work, session.guard()?).map_err(failure)? {
        End::Stopped { given_back: None } => note("stopped: no task was running"),
        End::Stopped { given_back: Some(task) } => {
            note(&format!("stopped: the run of task {task} was ended; the task waits again in the same round"));
        }
        End::Kept(task) => note(&format!(
            "stopped while Redis is away: the result of task {task} is on the disk; start this worker again to report it"
        )),
        End::Unreturned(task) => note(&format!(
            "stopped while Redis is away: the run of task {task} was ended; the task waits again when its lease has expired"
        )),
        End::Broken(reason) => return Err(Failure::failed(format!("{reason}; its task was given back"))),
    }
    Ok(0)
}

fn failure(error: TdfWorkerError) -> Failure {
    match &error {
        TdfWorkerError::Redis(error) => super::failure(error),
        _ => Failure::failed(error),
    }
}
