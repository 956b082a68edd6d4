//! `llts prompt`: a master that hands out prompts, workers that run a command for each, and the commands around them.

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
    /// Hand out the prompts of .tasks/pending to workers
    Master(master::MasterArgs),
    /// Show the numbers of waiting, running and finished prompts, and the workers
    Status(status::StatusArgs),
    /// Run a command for each prompt of a master
    Worker(worker::WorkerArgs),
}

/// The port of the master: the named one, otherwise that of the configuration.
fn port(session: &Session, named: Option<u16>) -> u16 {
    named.unwrap_or(session.config.prompt.port)
}

/// The folder with `.tasks/`: the named one, otherwise that of the configuration.
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
