//! `llts prompt`: a master that hands prompts out, workers that run a command for each, and what is around them.

mod create;
mod master;
mod status;
mod worker;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::Session;
use super::exit::Failure;

#[derive(Args, Debug)]
pub(super) struct PromptArgs {
    #[command(subcommand)]
    command: PromptCommand,
}

#[derive(Debug, Subcommand)]
enum PromptCommand {
    /// Make one prompt for each line of a list
    Create(create::CreateArgs),
    /// Hand the prompts of .tasks/pending out to workers
    Master(master::MasterArgs),
    /// Show how many prompts wait, run and are done, and the workers
    Status(status::StatusArgs),
    /// Run a command for each prompt of a master
    Worker(worker::WorkerArgs),
}

/// Where the master is, unless the arguments say otherwise.
fn port(session: &Session, named: Option<u16>) -> u16 {
    named.unwrap_or(session.config.prompt.port)
}

/// The folder with `.tasks/`, unless the arguments say otherwise.
fn root(session: &Session, named: Option<&Path>) -> PathBuf {
    named.unwrap_or(&session.config.prompt.root_dir).to_owned()
}

pub(super) fn run(session: &mut Session, args: PromptArgs) -> Result<u8, Failure> {
    match args.command {
        PromptCommand::Create(args) => create::run(session, &args),
        PromptCommand::Master(args) => master::run(session, &args),
        PromptCommand::Status(args) => status::run(session, &args),
        PromptCommand::Worker(args) => worker::run(session, args),
    }
}
