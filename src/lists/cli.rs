//! `llts spool`: task lists on disk (TDF2): a server, workers, and the commands around them.

mod add;
mod clean;
mod close;
mod results;
mod retry;
mod server;
mod show;
mod status;
mod worker;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use crate::shell::ListsError;
use crate::shell::folders::Folders;
use crate::shell::orders::OrderError;
use api::config::Durability;
use base::lists::ListTaskId;
use term::exit;
use term::exit::Failure;
use term::session::Session;

#[expect(missing_docs, reason = "clap shows such a comment as help")]
#[derive(Args, Debug)]
pub struct ListsArgs {
    /// Folder with the tasks [default: lists.DIR]
    #[arg(long, value_name = "DIR", global = true)]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    command: ListsCommand,
}

#[derive(Debug, Subcommand)]
enum ListsCommand {
    /// Keep the tasks of a folder, and hand them out in lists
    Server(server::ServerArgs),
    /// Run the lists of a server, one command after the other
    Worker(worker::WorkerArgs),
    /// Add tasks and print their ids
    Add(add::AddArgs),
    /// Count tasks and lists
    Status(status::StatusArgs),
    /// The same, updated until Ctrl-C or until all tasks have ended
    Watch(status::WatchArgs),
    /// Show everything known about a task
    Show(show::ShowArgs),
    /// Print what the commands have written
    Results(results::ResultsArgs),
    /// Form lists of all new tasks at once
    Close,
    /// Run tasks again that have failed for good
    Retry(retry::RetryArgs),
    /// Remove finished tasks
    Clean(clean::CleanArgs),
}

/// Runs the command, and returns its exit code.
pub fn run(session: &mut Session, args: &ListsArgs) -> Result<u8, Failure> {
    let dir = args.dir.as_deref();
    match &args.command {
        ListsCommand::Server(args) => server::run(session, dir, args),
        ListsCommand::Worker(args) => worker::run(session, args),
        ListsCommand::Add(args) => add::run(session, dir, args),
        ListsCommand::Status(_) => status::run(session, dir),
        ListsCommand::Watch(args) => status::watch(session, dir, args),
        ListsCommand::Show(args) => show::run(session, dir, args),
        ListsCommand::Results(args) => results::run(session, dir, args),
        ListsCommand::Close => close::run(session, dir),
        ListsCommand::Retry(args) => retry::run(session, dir, args),
        ListsCommand::Clean(args) => clean::run(session, dir, args),
    }
}

/// The folder: the named one, otherwise that of the configuration.
fn named<'a>(session: &'a Session, dir: Option<&'a Path>) -> Result<&'a Path, Failure> {
    dir.or(session.config.lists.dir.as_deref()).ok_or_else(|| {
        Failure::usage("no folder with task lists is named; use --dir DIR, or set DIR in [lists] of the configuration")
    })
}

/// The same as folders, which must exist.
fn folders(session: &Session, dir: Option<&Path>) -> Result<Folders, Failure> {
    let dir = named(session, dir)?;
    Folders::at(dir).map_err(|error| match error {
        ListsError::Folder { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Failure::usage(format!("there is no folder {0}; make it with `llts spool server {0}`", dir.display()))
        }
        error => Failure::failed(error),
    })
}

fn is_durable(session: &Session) -> bool {
    session.config.controller.durability == Durability::Disk
}

impl From<OrderError> for Failure {
    fn from(error: OrderError) -> Self {
        let exit = match &error {
            OrderError::NoServer(_) | OrderError::Silent(_) => exit::NO_CONTROLLER,
            OrderError::NotFailed { state: None, .. } => exit::NO_SUCH_TASK,
            OrderError::NotFailed { .. }
            | OrderError::File { .. }
            | OrderError::Lock(_)
            | OrderError::Invalid { .. } => exit::FAILED,
        };
        Self::new(exit, error.to_string())
    }
}

/// Reads the id of a task, for clap.
fn id(text: &str) -> Result<ListTaskId, String> {
    text.parse().map_err(|error| format!("it is {error}"))
}
