//! `llts spool results`: what the commands have written, in the order of their ids.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::show;
use crate::shell::folders::{Folders, State};
use crate::shell::view;
use crate::shell::view::Found;
use term::exit::Failure;
use term::output::{Sink, Target};
use term::session::Session;

#[derive(Args, Debug)]
#[command(after_help = "\
Prints the stdout of each completed task, byte for byte and nothing else. With --failed it
prints for each task that has failed for good its id, state, worker and command, and then
its stderr. With --output json each task is an object with its fields and both texts.")]
pub(crate) struct ResultsArgs {
    /// The tasks that have failed for good, and why
    #[arg(long)]
    failed: bool,
}

pub(super) fn run(session: &mut Session, dir: Option<&Path>, args: &ResultsArgs) -> Result<u8, Failure> {
    let folders = super::folders(session, dir)?;
    let found = found(&folders, args.failed)?;
    if session.out.is_json() {
        let tasks = found.iter().map(value).collect::<Result<Vec<Value>, Failure>>()?;
        session.out.value(&json!({ "tasks": tasks }));
        return Ok(0);
    }
    let mut sink = Sink::new(Target::Stdout, None);
    for one in &found {
        let bytes = if args.failed {
            let worker = one.ran.as_ref().map(|ran| ran.worker.to_string()).unwrap_or_default();
            session.out.line(format!("{} {} by {worker}: {}", one.task.id, one.state.name(), one.task.cmd));
            read(one.err())?
        } else {
            read(one.out())?
        };
        if sink.write(&bytes).is_err() || session.out.is_broken() {
            // A reader that stops early, such as head(1), is not a failure.
            return Ok(0);
        }
        sink.end(args.failed);
    }
    Ok(0)
}

fn found(folders: &Folders, is_failed: bool) -> Result<Vec<Found>, Failure> {
    let states: &[State] =
        if is_failed { &[State::FailedTime, State::FailedCount] } else { &[State::CompletedArchive] };
    let mut all = Vec::new();
    for state in states {
        let ended = view::ended(folders, *state);
        all.extend(ended.map_err(|error| Failure::failed(format!("cannot read {}: {error}", state.name())))?);
    }
    all.sort_by_key(|found| found.task.id);
    Ok(all)
}

fn value(found: &Found) -> Result<Value, Failure> {
    let text = |path| Ok::<_, Failure>(String::from_utf8_lossy(&read(path)?).into_owned());
    let mut value = show::value(found);
    value["stdout"] = json!(text(found.out())?);
    value["stderr"] = json!(text(found.err())?);
    Ok(value)
}

/// The content of an output, or nothing if there is none.
fn read(path: Option<PathBuf>) -> Result<Vec<u8>, Failure> {
    let Some(path) = path else { return Ok(Vec::new()) };
    fs::read(&path).map_err(|error| Failure::failed(format!("cannot read {}: {error}", path.display())))
}
