//! `llts tdf manage CFG`: a command for each task that has ended, until Ctrl-C.

use std::path::Path;

use clap::Args;

use crate::shell::manage::command;
use crate::shell::manage::command::CommandGuard;
use crate::shell::{CallbackError, Callbacks, Manager, ManagerError};
use crate::wire::Task;
use api::config::ManagerConfig;
use proc::logging;
use proc::signals::{STOP, Signals};
use term::exit::Failure;
use term::output::note;
use term::session::Session;

const ABOUT: &str = "\
CMD runs in a shell, with the task as one JSON object on its standard input. A task is
archived when its command has exited with 0, or if there is none for it. After any other
end the command is run again later: at first after one round, then after twice as long
each time, at most a minute. It runs at least once for each task: once more if the manager
is killed before the task is archived. Several managers of one namespace share its tasks.
The processes of a command end with the manager. One command runs at a time: a log line
names one that takes longer than 10 s.

CFG needs [redis], [tdf], [task_defaults] and
    [manager]
    round_duration=1.3

Exits with 0 after Ctrl-C, when the command that runs has ended; 1 if it cannot start; 3
if Redis is away at the start, 4 if it refuses.";

#[derive(Args, Debug)]
#[command(after_help = ABOUT, override_usage = "llts tdf manage [OPTIONS] CFG")]
pub(crate) struct ManageArgs {
    /// The path of the configuration file
    #[arg(value_name = "CFG")]
    arguments: Vec<String>,
    /// For a task that has succeeded
    #[arg(long, value_name = "CMD")]
    on_succeeded: Option<String>,
    /// For a task that has failed too often
    #[arg(long, value_name = "CMD")]
    on_failed: Option<String>,
    /// For a task that has taken too long too often
    #[arg(long, value_name = "CMD")]
    on_timed_out: Option<String>,
    /// For a task that was not finished in time
    #[arg(long, value_name = "CMD")]
    on_expired: Option<String>,
}

pub(crate) fn run(session: &mut Session, args: &ManageArgs) -> Result<u8, Failure> {
    let [file] = super::exactly(&args.arguments, ["CFG: the path of its configuration file (manager.cfg)"])?;
    let config = ManagerConfig::load(Path::new(file)).map_err(Failure::failed)?;
    config.tdf.warnings.iter().for_each(|warning| note(warning));
    // Before any thread is started, so that all of them leave these signals to the loop.
    let mut signals = Signals::install(&STOP).map_err(Failure::failed)?;
    let mut theirs = Signals::install(&STOP).map_err(Failure::failed)?;
    logging::init(&session.config.log, None).map_err(Failure::failed)?;
    let guard = CommandGuard::start().map_err(|error| Failure::failed(format!("cannot start /bin/sh: {error}")))?;
    let ready = format!("tdf manager ready: namespace {}", config.tdf.namespace);
    let mut manager = Manager::connect(config).map_err(|error| match &error {
        ManagerError::Redis(error) => super::failure(error),
        _ => Failure::failed(error),
    })?;
    note(&ready);
    let mut commands = Commands { args, signals: &mut theirs, guard, is_stopping: false };
    manager.run(&mut commands, Some(&mut signals));
    Ok(0)
}

/// The commands of the command line.
struct Commands<'a> {
    args: &'a ManageArgs,
    /// A second descriptor of the same signals, for while a command runs.
    signals: &'a mut Signals,
    guard: CommandGuard,
    is_stopping: bool,
}

impl Commands<'_> {
    fn call(&mut self, line: Option<&str>, task: &Task) -> Result<(), CallbackError> {
        let Some(line) = line else { return Ok(()) };
        command::run(line, task, self.signals, &mut self.guard, &mut self.is_stopping)
    }
}

impl Callbacks for Commands<'_> {
    fn succeeded(&mut self, _: &mut Manager, task: &Task) -> Result<(), CallbackError> {
        self.call(self.args.on_succeeded.as_deref(), task)
    }

    fn failed(&mut self, _: &mut Manager, task: &Task) -> Result<(), CallbackError> {
        self.call(self.args.on_failed.as_deref(), task)
    }

    fn timed_out(&mut self, _: &mut Manager, task: &Task) -> Result<(), CallbackError> {
        self.call(self.args.on_timed_out.as_deref(), task)
    }

    fn expired(&mut self, _: &mut Manager, task: &Task) -> Result<(), CallbackError> {
        self.call(self.args.on_expired.as_deref(), task)
    }

    fn is_stopping(&mut self) -> bool {
        self.is_stopping |= !self.signals.read().is_empty();
        self.is_stopping
    }
}
