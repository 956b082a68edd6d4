//! `llts tdf`: the components of TDF on Redis.

mod list;
mod manage;
mod open;
mod server;
mod show;
mod stats;
mod worker;
mod workers;

use std::path::Path;

use clap::{Args, Subcommand};

use crate::shell::{Namespace, RedisError};
use api::config::TdfSection;
use term::exit;
use term::exit::Failure;
use term::output::note;
use term::session::Session;

#[expect(missing_docs, reason = "clap shows such a comment as help")]
#[derive(Args, Debug)]
pub struct TdfArgs {
    #[command(subcommand)]
    command: TdfCommand,
}

#[derive(Debug, Subcommand)]
enum TdfCommand {
    /// Expire, time out and judge the tasks of a namespace
    Server(server::ServerArgs),
    /// Run the tasks of a namespace, one at a time
    Worker(worker::WorkerArgs),
    /// Run a command for each task that has ended, and archive it
    Manage(manage::ManageArgs),
    /// Open tasks and print their ids
    Open(open::OpenArgs),
    /// Count tasks and workers
    Stats(stats::StatsArgs),
    /// List tasks
    List(list::ListArgs),
    /// Show a task
    Show(show::ShowArgs),
    /// List workers
    Workers(workers::WorkersArgs),
}

/// Runs the command, and returns its exit code.
pub fn run(session: &mut Session, args: TdfArgs) -> Result<u8, Failure> {
    match args.command {
        TdfCommand::Server(args) => server::run(session, &args),
        TdfCommand::Worker(args) => worker::run(session, &args),
        TdfCommand::Manage(args) => manage::run(session, &args),
        TdfCommand::Open(args) => open::run(session, &args),
        TdfCommand::Stats(args) => stats::run(session, &args),
        TdfCommand::List(args) => list::run(session, &args),
        TdfCommand::Show(args) => show::run(session, &args),
        TdfCommand::Workers(args) => workers::run(session, &args),
    }
}

/// What the path of a configuration is, where any of the three files will do.
const CFG: &str = "CFG: the path of a configuration file with [redis] and [tdf]";

/// The arguments, if there are as many as `expected` names; each name comes with what it is.
fn exactly<'a, const N: usize>(given: &'a [String], expected: [&str; N]) -> Result<[&'a str; N], Failure> {
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let count = given.len();
    given.try_into().map_err(|_| wrong_count(&N.to_string(), N, count, &expected))
}

/// The same where the last argument may be missing.
fn all_but_last<'a, T, const N: usize>(
    given: &'a [T],
    expected: [&str; N],
) -> Result<(&'a [T], Option<&'a T>), Failure> {
    match given.len() {
        count if count == N => Ok((&given[..N - 1], given.last())),
        count if count + 1 == N => Ok((given, None)),
        count => Err(wrong_count(&format!("{} or {N}", N - 1), N, count, &expected)),
    }
}

fn wrong_count(wanted: &str, most: usize, count: usize, expected: &[&str]) -> Failure {
    let noun = if most == 1 { "argument" } else { "arguments" };
    let arguments: String = expected.iter().map(|argument| format!("\n  {argument}")).collect();
    Failure::failed(format!("expecting {wanted} {noun} ({count} given){arguments}"))
}

/// The namespace that a configuration names.
fn connect(cfg: &str) -> Result<Namespace, Failure> {
    let section = TdfSection::load(Path::new(cfg)).map_err(Failure::failed)?;
    // Keys of the other components are valid here; only values that are read in another way are reported.
    section.warnings.iter().for_each(|warning| note(warning));
    Namespace::connect(&section.redis, &section.namespace).map_err(|error| failure(&error))
}

/// The namespace that the service of the home works for.
fn of_service(session: &Session) -> Result<Namespace, Failure> {
    let pool = session.config.tdf.pool.as_ref().ok_or_else(|| {
        let why = "this service works for no namespace of TDF: set REDIS_URL and NAMESPACE in [tdf] of its configuration, or name \
                   another configuration file, with [redis] and [tdf]";
        Failure::failed(why)
    })?;
    Namespace::connect(&pool.redis, &pool.namespace).map_err(|error| failure(&error))
}

/// The exit codes of a controller that does not answer or refuses, for a Redis that does.
fn failure(error: &RedisError) -> Failure {
    let code = match error {
        RedisError::Away { .. } => exit::NO_CONTROLLER,
        RedisError::Denied { .. } | RedisError::Untrusted { .. } => exit::REFUSED,
        RedisError::NameTaken { .. }
        | RedisError::Failed { .. }
        | RedisError::Reply { .. }
        | RedisError::Certificates { .. } => exit::FAILED,
    };
    Failure::new(code, error.to_string())
}
