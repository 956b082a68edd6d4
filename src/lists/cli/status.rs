//! `llts spool status`: the number of tasks and lists in each state; `llts spool watch`: the same until all tasks have ended.

use std::path::Path;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::shell::folders::{Folders, State};
use crate::shell::view::Counts;
use crate::shell::{orders, view};
use proc::signals::{STOP, Signals};
use term::exit;
use term::exit::Failure;
use term::output::{Output, note};
use term::session::Session;
use term::style::Look;
use term::table::Table;

/// Invalid files that are named.
const INVALID_SHOWN_MAX: usize = 10;

#[derive(Args, Debug)]
pub(crate) struct StatusArgs {}

#[derive(Args, Debug)]
#[command(after_help = "\
On a terminal the picture is drawn again each second; elsewhere a line is written for each
change, or a JSON value with --output json.

Exits with 0 after Ctrl-C or when all tasks have ended; with --until-done 1 if a task has
failed for good.")]
pub(crate) struct WatchArgs {
    /// End when no task is left that waits or runs
    #[arg(long)]
    until_done: bool,
}

pub(super) fn run(session: &mut Session, dir: Option<&Path>) -> Result<u8, Failure> {
    let folders = super::folders(session, dir)?;
    let counts = view::count(&folders).map_err(Failure::failed)?;
    show(&mut session.out, &folders, &counts);
    for (name, why) in view::invalid(&folders).iter().take(INVALID_SHOWN_MAX) {
        note(&format!("new/{name} is not a task: {why}"));
    }
    Ok(0)
}

pub(super) fn watch(session: &mut Session, dir: Option<&Path>, args: &WatchArgs) -> Result<u8, Failure> {
    // Before a signal can arrive.
    let mut signals = Signals::install(&STOP).map_err(Failure::failed)?;
    let folders = super::folders(session, dir)?;
    let mut shown = None;
    loop {
        let counts = view::count(&folders).map_err(Failure::failed)?;
        let is_terminal = session.out.columns().is_some() && !session.out.is_json();
        if is_terminal {
            let picture = picture(&folders, &counts, session.out.columns());
            session.out.redraw(&picture);
        } else if shown.as_ref() == Some(&counts) {
            // Nothing has changed.
        } else if session.out.is_json() {
            session.out.value(&value(&folders, &counts));
        } else {
            session.out.line(line(&counts));
        }
        if args.until_done && counts.left() == 0 {
            let failed = counts.of(State::FailedTime) + counts.of(State::FailedCount);
            return Ok(if failed > 0 { exit::FAILED } else { 0 });
        }
        shown = Some(counts);
        if !session.out.redraws(&mut signals) {
            return Ok(0);
        }
    }
}

fn show(out: &mut Output, folders: &Folders, counts: &Counts) {
    if out.is_json() {
        out.value(&value(folders, counts));
    } else {
        let picture = picture(folders, counts, out.columns());
        out.text(&picture);
    }
}

/// The number of lists in a state that has lists.
fn lists(counts: &Counts, state: State) -> Option<u64> {
    let with_lists = State::ALL.into_iter().filter(|state| state.has_lists());
    with_lists.zip(counts.lists).find(|(other, _)| *other == state).map(|(_, count)| count)
}

fn value(folders: &Folders, counts: &Counts) -> Value {
    let with_lists = State::ALL.into_iter().filter_map(|state| Some((state.name(), lists(counts, state)?)));
    let lists: Map<String, Value> = with_lists.map(|(name, count)| (name.to_owned(), json!(count))).collect();
    let tasks: Map<String, Value> =
        State::ALL.into_iter().map(|state| (state.name().to_owned(), json!(counts.of(state)))).collect();
    json!({
        "dir": folders.root().display().to_string(),
        "server": orders::server(folders).map(|holder| holder.pid),
        "tasks": tasks,
        "lists": lists,
        "invalid": counts.invalid,
        "late": counts.late,
    })
}

fn picture(folders: &Folders, counts: &Counts, columns: Option<usize>) -> String {
    let mut table = Table::new(&["STATE", "TASKS", "LISTS"]);
    for state in State::ALL {
        let lists = lists(counts, state).map_or_else(String::new, |count| count.to_string());
        table.row([state.name(), &counts.of(state).to_string(), &lists]);
    }
    table.row(["invalid", &counts.invalid.to_string(), ""]);
    let server = match orders::server(folders) {
        Some(holder) => holder.pid.map_or("a server".to_owned(), |pid| format!("the server is process {pid}")),
        None => "no server runs".to_owned(),
    };
    let late = match counts.late {
        0 => String::new(),
        late => format!("; {late} results came too late and were refused"),
    };
    format!("{}\n{}: {server}{late}\n", table.show(Look::plain(columns)), folders.root().display())
}

fn line(counts: &Counts) -> String {
    let waiting = counts.of(State::New) + counts.of(State::Open);
    let running = counts.of(State::Running) + counts.of(State::Closed);
    let [done, again, late, often] = State::ENDS.map(|state| counts.of(state));
    let invalid = counts.invalid;
    format!(
        "{waiting} waiting, {running} in lists, {done} completed, {again} repeated, {late} failed by time, \
         {often} failed by count, {invalid} invalid"
    )
}
