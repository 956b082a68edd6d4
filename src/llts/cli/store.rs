//! `llts store`: read the durable store, also while a controller uses it, and repair it while none does.

use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::json;

use super::change::confirm;
use super::up::refuse_joined;
use api::wire::task;
use controller::store;
use controller::store::{Salvage, StoreError};
use proc::lock::StateLock;
use term::exit::{BROKEN_PIPE, Failure};
use term::output::{Output, note};
use term::session::Session;

/// The maximum number of task ids that a sentence names before it only gives the number of the others.
const NAMED_MAX: usize = 10;

#[derive(Args, Debug)]
pub(super) struct StoreArgs {
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Read all of it and report whether it is intact
    Check,
    /// Print every task, oldest first, one JSON object per line
    Export,
    /// Make a new store of the readable parts of a damaged one, which is kept
    Repair {
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
    },
}

pub(super) fn run(session: &mut Session, args: &StoreArgs) -> Result<u8, Failure> {
    refuse_joined(session, "run this command there")?;
    let state_dir = session.config.paths.state_dir.clone();
    match args.command {
        StoreCommand::Check => {
            let tasks = store::inspect(&state_dir, |_| {}).map_err(Failure::failed)?;
            show_whole(&mut session.out, &state_dir, tasks);
        }
        StoreCommand::Export => {
            store::inspect(&state_dir, |record| session.out.json_line(&task::to_json(&record)))
                .map_err(Failure::failed)?;
            // A part of it is no export.
            if session.out.is_broken() {
                return Ok(BROKEN_PIPE);
            }
        }
        StoreCommand::Repair { yes } => repair(&mut session.out, &state_dir, yes)?,
    }
    Ok(0)
}

fn show_whole(out: &mut Output, state_dir: &Path, tasks: usize) {
    if out.is_json() {
        out.value(&json!({ "whole": true, "tasks": tasks }));
    } else {
        out.line(format_args!("the store in {} is intact: {tasks} tasks", state_dir.display()));
    }
}

fn repair(out: &mut Output, state_dir: &Path, yes: bool) -> Result<(), Failure> {
    let _lock = StateLock::acquire(state_dir, "controller").map_err(Failure::failed)?;
    store::finish_repair(state_dir).map_err(Failure::failed)?;
    match store::inspect(state_dir, |_| {}) {
        Ok(tasks) => {
            show_whole(out, state_dir, tasks);
            return Ok(());
        }
        Err(StoreError::Damaged { what, .. }) => note(&format!("the store in {}: {what}", state_dir.display())),
        Err(error) => return Err(Failure::failed(error)),
    }
    let salvage = Salvage::read(state_dir).map_err(Failure::failed)?;
    for what in &salvage.unreadable {
        note(&format!("cannot be read: {what}"));
    }
    if !salvage.outdated.is_empty() {
        note(&format!("only an earlier state can be read: {}", named(&salvage.outdated)));
    }
    confirm(&format!("continue with the {} readable tasks", salvage.tasks()), yes)?;
    let kept = salvage.put_in_place(state_dir).map_err(Failure::failed)?;
    if out.is_json() {
        out.value(&json!({
            "whole": false,
            "tasks": salvage.tasks(),
            "unreadable": salvage.unreadable,
            "outdated": salvage.outdated,
            "kept": kept,
        }));
    } else {
        out.line(format_args!("the store has {} tasks; the damaged one is in {}", salvage.tasks(), kept.display()));
    }
    Ok(())
}

fn named(ids: &[String]) -> String {
    let shown = ids[..ids.len().min(NAMED_MAX)].join(", ");
    match ids.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
