//! `llts graph show`: a graph and its steps. `llts graph run` prints the same at its end.

use clap::Args;
use serde_json::{Value, json};

use super::super::Session;
use super::ids;
use api::wire::client::Listing;
use api::wire::graph::state;
use api::wire::requests::graph::{GraphAnswer, StepRow, query, steps};
use base::{Phase, StepState, Wall, words};
use llts_client::{Client, ClientError};
use term::exit::Failure;
use term::output::to_value;
use term::table::Table;
use term::times;

/// Steps of one request.
const PAGE: u64 = 1000;

/// Number of steps shown by default.
pub(super) const SHOWN: u64 = 50;

#[derive(Args, Debug)]
#[command(after_help = "\
TASKS are the finished tasks of a step and all that it has; a step with a task for each partition gets them as partitions come. \
The tasks of a graph are a job with the id of the graph: `llts list --job ID` lists them, `llts logs --job ID` prints their outputs.")]
pub(super) struct ShowArgs {
    /// The graph: its id, the letters at its end, or `last`, the newest
    #[arg(value_name = "ID")]
    id: String,
    /// Maximum number of steps
    #[arg(long, value_name = "N", default_value_t = SHOWN)]
    limit: u64,
    /// Number of steps to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
}

pub(super) fn run(session: &mut Session, args: &ShowArgs) -> Result<u8, Failure> {
    let client = session.client()?;
    let id = ids::whole(&client, &args.id)?;
    let graph = client.ask(&query(&id, None))?;
    let (total, rows) = page(&client, &id, args.offset, args.limit)?;
    show(session, &graph, &rows);
    if !session.out.is_json() {
        session.out.next_page("steps", args.offset, rows.len(), total);
    }
    Ok(0)
}

/// Prints a graph with these steps.
pub(super) fn show(session: &mut Session, graph: &GraphAnswer, rows: &[StepRow]) {
    if session.out.is_json() {
        let mut value = to_value(graph.fields());
        let named = |row: &StepRow| {
            let mut data = row.data.clone();
            data.insert(words::STEP.to_owned(), json!(row.name));
            Value::Object(data)
        };
        value["steps"] = rows.iter().map(named).collect();
        session.out.value(&value);
        return;
    }
    session.out.table(&facts(graph));
    if !rows.is_empty() {
        session.out.line("");
        session.out.table(&table(rows, graph.has_ended()));
    }
}

/// The table of steps of a graph, which may have ended.
pub(in super::super) fn table(rows: &[StepRow], has_ended: bool) -> Table {
    let mut table = Table::new(&["STEP", "STATE", "TASKS", "TIME"]);
    for row in rows {
        let finished = row.tasks(Phase::Finished).count() as u64;
        let tasks = match row.task_count() {
            0 => String::new(),
            total => format!("{finished}/{total}"),
        };
        table.row([&row.name, shown(row.state(), has_ended), &tasks, &time(row)]);
    }
    table
}

/// The facts about a graph as a whole.
pub(in super::super) fn facts(graph: &GraphAnswer) -> Table {
    let mut table = Table::pairs();
    table.row(["graph", graph.id()]);
    if let Some(name) = graph.name() {
        table.row(["name", name]);
    }
    if let Some(given_id) = graph.given_id() {
        table.row(["given id", &given_id.to_string()]);
    }
    table.row(["status", graph.status()]);
    if let Some(reason) = graph.reason() {
        table.row(["reason", reason]);
    }
    let mut counts: Vec<(&str, u64)> = Vec::new();
    for one in StepState::ALL.into_iter().filter(|one| graph.in_state(*one) > 0) {
        let (word, count) = (shown(state(one), graph.has_ended()), graph.in_state(one));
        match counts.last_mut().filter(|(last, _)| *last == word) {
            Some((_, all)) => *all += count,
            None => counts.push((word, count)),
        }
    }
    let counts: Vec<_> = counts.iter().map(|(word, count)| format!("{} {count}", word.to_lowercase())).collect();
    table.row(["steps", &counts.join(", ")]);
    if let Some(at) = graph.submitted_at() {
        table.row(["submitted", &times::local(at)]);
    }
    if let (Some(begin), Some(end)) = (graph.submitted_at(), graph.ended_at()) {
        table.row(["ended", &format!("{}, after {}", times::local(end), times::duration(end.since(begin)))]);
    }
    table
}

/// The word for the state of a step, for people: a step with nothing left to do is done, and no step goes on when its graph has ended.
fn shown(word: &str, has_ended: bool) -> &str {
    if word == state(StepState::Deactivated) {
        "done"
    } else if !has_ended || word == state(StepState::Completed) {
        word
    } else if word == state(StepState::Running) {
        "STOPPED"
    } else {
        "NOT RUN"
    }
}

/// How long the tasks of a step took: from the first task to the completion of the step.
fn time(row: &StepRow) -> String {
    let at = |one| {
        let moment = row.data.get(words::TIMES)?.get(state(one))?.as_f64()?;
        Wall::from_unix_seconds(moment)
    };
    let begin = at(StepState::Preparing).or_else(|| at(StepState::Running));
    match (begin, at(StepState::Completed)) {
        (Some(begin), Some(end)) => times::duration(end.since(begin)),
        (Some(_), None) | (None, _) => String::new(),
    }
}

/// Steps from an offset on, and the number of all.
pub(super) fn page(client: &Client, id: &str, offset: u64, limit: u64) -> Result<(u64, Vec<StepRow>), ClientError> {
    let mut found = Vec::new();
    loop {
        let begin = offset.saturating_add(found.len() as u64);
        let left = limit.saturating_sub(found.len() as u64).min(PAGE);
        let Listing { total, rows } = client.ask(&steps(id, begin, left))?;
        let is_last = rows.is_empty();
        found.extend(rows);
        if is_last || found.len() as u64 >= limit || offset.saturating_add(found.len() as u64) >= total {
            return Ok((total, found));
        }
    }
}

/// All steps of a graph.
pub(super) fn all_steps(client: &Client, id: &str) -> Result<Vec<StepRow>, ClientError> {
    page(client, id, 0, u64::MAX).map(|(_, rows)| rows)
}
