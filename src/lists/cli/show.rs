//! `llts spool show ID`: everything that is known about a task, in all its forms.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::engine::task::TASK;
use crate::shell::folders::Folders;
use crate::shell::view;
use crate::shell::view::Found;
use base::Wall;
use base::lists::ListTaskId;
use term::exit::Failure;
use term::session::Session;
use term::table::Table;
use term::{exit, times};

#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// Id of the task; without its _FAILS all its attempts are shown
    #[arg(value_parser = wanted)]
    id: Wanted,
}

#[derive(Clone, Copy, Debug)]
enum Wanted {
    One(ListTaskId),
    All(u64),
}

fn wanted(text: &str) -> Result<Wanted, String> {
    let all = text.parse().ok().map(Wanted::All);
    all.map_or_else(|| super::id(text).map(Wanted::One), Ok)
}

pub(super) fn run(session: &mut Session, dir: Option<&Path>, args: &ShowArgs) -> Result<u8, Failure> {
    let folders = super::folders(session, dir)?;
    let (found, name) = match args.id {
        Wanted::One(id) => (view::find(&folders, id), id.to_string()),
        Wanted::All(nanos) => (view::find_all(&folders, nanos), nanos.to_string()),
    };
    if found.is_empty() {
        let sentence = match why_invalid(&folders, args.id) {
            Some((name, why)) => format!("new/{name} is not a task: {why}"),
            None => format!("there is no task {name} in {}", folders.root().display()),
        };
        return Err(Failure::new(exit::NO_SUCH_TASK, sentence));
    }
    if session.out.is_json() {
        let tasks: Vec<Value> = found.iter().map(value).collect();
        session.out.value(&json!({ "tasks": tasks }));
        return Ok(0);
    }
    for (at, one) in found.iter().enumerate() {
        if at > 0 {
            session.out.line("");
        }
        session.out.table(&table(one));
    }
    Ok(0)
}

/// The first form of a task whose file is invalid, and why.
fn why_invalid(folders: &Folders, wanted: Wanted) -> Option<(String, String)> {
    let is_wanted = |id: ListTaskId| match wanted {
        Wanted::One(one) => id == one,
        Wanted::All(nanos) => id.nanos == nanos,
    };
    let id = |name: &str| name.strip_suffix(TASK)?.strip_suffix('.')?.parse().ok();
    view::invalid(folders).into_iter().find(|(name, _)| id(name).is_some_and(is_wanted))
}

/// A task as a value for programs.
pub(super) fn value(found: &Found) -> Value {
    let Found { task, ran, .. } = found;
    let path = |path: Option<PathBuf>| path.map(|path| path.display().to_string());
    json!({
        "id": task.id.to_string(),
        "state": found.state.name(),
        "list": found.list,
        "created": task.created,
        "until": task.until,
        "expected_duration": task.expected_duration,
        "max_fails": task.max_fails,
        "fails": task.id.fails,
        "cmd": task.cmd,
        "worker": ran.as_ref().map(|ran| ran.worker.as_str()),
        "started": ran.as_ref().map(|ran| ran.started),
        "ended": ran.as_ref().map(|ran| ran.ended),
        "out": path(found.out()),
        "err": path(found.err()),
    })
}

fn table(found: &Found) -> Table {
    let Found { task, ran, .. } = found;
    let time = |seconds: u64| times::local(Wall::from_micros(seconds.saturating_mul(1_000_000)));
    let mut table = Table::pairs();
    table.row(["id", &task.id.to_string()]);
    table.row(["state", found.state.name()]);
    found.list.iter().for_each(|list| table.row(["list", list]));
    table.row(["created", &time(task.created)]);
    table.row(["until", &time(task.until)]);
    table.row(["expected_duration", &format!("{} s", task.expected_duration)]);
    table.row(["max_fails", &task.max_fails.to_string()]);
    table.row(["fails", &task.id.fails.to_string()]);
    table.row(["cmd", &task.cmd]);
    if let Some(ran) = ran {
        table.row(["worker", ran.worker.as_str()]);
        table.row(["started", &time(ran.started)]);
        table.row(["ended", &time(ran.ended)]);
    }
    for (name, path) in [("out", found.out()), ("err", found.err())] {
        path.iter().for_each(|path| table.row([name, &path.display().to_string()]));
    }
    table
}
