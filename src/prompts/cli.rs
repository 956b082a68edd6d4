//! `llts prompt`: a master that hands out prompts, workers that run a command for each, and the commands around them.

mod clean;
mod create;
mod master;
mod orders;
mod outcomes;
mod status;
mod tail;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};

use crate::wire::Order;
use base::Usd;
use term::exit::Failure;
use term::session::Session;
use zmtp::curve_keys;
use zmtp::json::json_dial::Server;

#[expect(missing_docs, reason = "clap shows such a comment as help")]
#[derive(Args, Debug)]
pub struct PromptArgs {
    #[command(subcommand)]
    command: PromptCommand,
}

#[derive(Debug, Subcommand)]
enum PromptCommand {
    /// Make one prompt for each line of a list
    Create(create::CreateArgs),
    /// Hand out the prompts of .tasks/pending to workers
    Master(master::MasterArgs),
    /// Show the prompts that have failed, and how
    Failed(outcomes::FailedArgs),
    /// Show the finished prompts, or write their answers as JSON lines
    Results(outcomes::ResultsArgs),
    /// Let failed prompts wait again
    Retry(outcomes::RetryArgs),
    /// Let a master hand out no more prompts, until it is resumed
    Pause(orders::OrderArgs),
    /// Let a paused master hand out prompts again
    Resume(orders::ResumeArgs),
    /// Let a master end when the running prompts have ended
    Drain(orders::OrderArgs),
    /// Show the numbers of waiting, running and finished prompts, and the workers
    Status(status::StatusArgs),
    /// Follow the output of a prompt, wherever it runs
    Tail(tail::TailArgs),
    /// List or remove the folders of runs that workers have kept
    Clean(clean::CleanArgs),
    /// Run a command for each prompt of a master
    Worker(worker::WorkerArgs),
}

/// The port of the master: the named one, otherwise that of the configuration.
fn port(session: &Session, named: Option<u16>) -> u16 {
    named.unwrap_or(session.config.prompt.port)
}

/// The master at this address. The connection to it is secured if this home has keys.
fn server(session: &Session, host: &str, port: Option<u16>) -> Result<Server, Failure> {
    let keys = session.config.network.curve_client.as_ref().map(curve_keys::client);
    let keys = keys.transpose().map_err(Failure::failed)?.map(Arc::new);
    Ok(Server { host: host.to_owned(), port: self::port(session, port), keys })
}

/// The secret that the master asks for.
fn secret(session: &Session) -> Option<String> {
    session.config.prompt.secret.as_ref().map(|secret| secret.reveal().to_owned())
}

/// The folder with `.tasks/`: the named one, otherwise that of the configuration.
fn root(session: &Session, named: Option<&Path>) -> PathBuf {
    named.unwrap_or(&session.config.prompt.root_dir).to_owned()
}

/// An amount of money.
fn usd(text: &str) -> Result<Usd, String> {
    let dollars = text.parse().ok().and_then(Usd::from_dollars).filter(|usd| *usd > Usd::default());
    dollars.ok_or_else(|| "it is no number of US dollars above 0".to_owned())
}

/// Runs the command, and returns its exit code.
pub fn run(session: &mut Session, args: PromptArgs) -> Result<u8, Failure> {
    match args.command {
        PromptCommand::Create(args) => create::run(session, &args),
        PromptCommand::Master(args) => master::run(session, &args),
        PromptCommand::Failed(args) => outcomes::failed(session, &args),
        PromptCommand::Results(args) => outcomes::results(session, &args),
        PromptCommand::Retry(args) => outcomes::retry(session, &args),
        PromptCommand::Pause(args) => orders::run(session, &args, Order::Pause),
        PromptCommand::Resume(args) => orders::resume(session, &args),
        PromptCommand::Drain(args) => orders::run(session, &args, Order::Drain),
        PromptCommand::Status(args) => status::run(session, &args),
        PromptCommand::Tail(args) => tail::run(session, &args),
        PromptCommand::Clean(args) => clean::run(session, &args),
        PromptCommand::Worker(args) => worker::run(session, args),
    }
}
