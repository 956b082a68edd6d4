//! `llts store`: look at the durable store, also while a controller uses it.

use clap::{Args, Subcommand};
use serde_json::json;

use super::Session;
use super::exit::Failure;
use crate::protocol::task;
use crate::shell::store;

#[derive(Args, Debug)]
pub(super) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Read all of it and say whether it is whole
    Check,
    /// Print every task, oldest first, one JSON object a line
    Export,
}

pub(super) fn run(session: &mut Session, args: &StoreArgs) -> Result<u8, Failure> {
    let state_dir = session.config.paths.state_dir.clone();
    match args.command {
        StoreCommand::Check => {
            let tasks = store::inspect(&state_dir, |_| {}).map_err(Failure::failed)?;
            if session.out.is_json() {
                session.out.value(&json!({ "whole": true, "tasks": tasks }));
            } else {
                session.out.line(format_args!("the store in {} is whole: {tasks} tasks", state_dir.display()));
            }
        }
        StoreCommand::Export => {
            store::inspect(&state_dir, |record| session.out.json_line(&task::to_json(&record)))
                .map_err(Failure::failed)?;
        }
    }
    Ok(0)
}
