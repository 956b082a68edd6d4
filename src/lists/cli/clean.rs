//! `llts spool clean`: removes finished tasks and their outputs.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::Path;

use clap::Args;
use serde_json::{Map, json};

use crate::shell::folders::State;
use crate::shell::{orders, view};
use term::exit::Failure;
use term::output::ask;
use term::session::Session;

#[derive(Args, Debug)]
pub(crate) struct CleanArgs {
    /// Also tasks that have failed for good
    #[arg(long)]
    failed: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(session: &mut Session, dir: Option<&Path>, args: &CleanArgs) -> Result<u8, Failure> {
    let folders = super::folders(session, dir)?;
    let states: &[State] = if args.failed { &State::ENDS } else { &[State::CompletedArchive, State::FailedArchive] };
    let counts = view::count(&folders).map_err(Failure::failed)?;
    let count: u64 = states.iter().map(|state| counts.of(*state)).sum();
    if !args.yes && count > 0 && !is_confirmed(count, &folders.root().display().to_string())? {
        return Err(Failure::failed("nothing was removed"));
    }
    let mut removed = Map::new();
    for state in states {
        let count = orders::clean(&folders, *state)?;
        removed.insert(state.name().to_owned(), json!(count));
        if !session.out.is_json() {
            session.out.line(format!("{} removed from {}", base::counted(count, "task"), state.name()));
        }
    }
    if session.out.is_json() {
        session.out.value(&json!({ "removed": removed }));
    }
    Ok(0)
}

fn is_confirmed(count: u64, folder: &str) -> Result<bool, Failure> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::usage(format!("{count} tasks of {folder} would be removed; repeat with --yes")));
    }
    ask(&format!("llts: remove {count} finished tasks and their outputs from {folder}? [y/N] "));
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer).map_err(Failure::failed)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
