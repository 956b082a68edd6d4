//! `llts tdf`: the components of TDF on Redis.

mod worker;

use clap::{Args, Subcommand};

use super::Session;
use super::exit::Failure;
use super::output::note;

#[derive(Args, Debug)]
pub(super) struct TdfArgs {
    #[command(subcommand)]
    command: TdfCommand,
}

#[derive(Debug, Subcommand)]
enum TdfCommand {
    /// Run the tasks of a namespace, one at a time
    Worker(worker::WorkerArgs),
}

pub(super) fn run(session: &Session, args: TdfArgs) -> Result<u8, Failure> {
    match args.command {
        TdfCommand::Worker(args) => worker::run(session, &args),
    }
}

/// The arguments, if there are as many as `expected` names; each name comes with what it is.
fn exactly<'a, const N: usize>(given: &'a [String], expected: [&str; N]) -> Result<[&'a str; N], Failure> {
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let count = given.len();
    given.try_into().map_err(|_| {
        expected.iter().for_each(|argument| note(&format!("  {argument}")));
        Failure::failed(format!("expecting {N} arguments ({count} given)"))
    })
}
