//! `llts explain GRAPH_…`: what each step of a graph waits for.

use serde_json::{Value, json};

use super::super::Session;
use super::show::all_steps;
use api::wire::requests::explain::explain;
use api::wire::requests::graph::{StepRow, query};
use base::{GraphId, Phase, words};
use llts_client::Client;
use term::exit::Failure;
use term::table::Table;
use term::{hints, times};

/// Maximum number of explained steps.
const STEPS: usize = 50;

/// Explains a graph: prints its status, and why its first uncompleted steps wait.
pub(in crate::cli) fn run(session: &mut Session, client: &Client, graph: GraphId) -> Result<u8, Failure> {
    let id = graph.to_string();
    let answer = client.ask(&query(&id, None))?;
    let mut waiting = all_steps(client, &id)?;
    waiting.retain(|row| row.why().is_some());
    let all = waiting.len();
    waiting.truncate(STEPS);
    let reasons: Vec<String> = waiting.iter().map(|row| why(client, row)).collect();
    let out = &mut session.out;
    if out.is_json() {
        let row = |(row, why): (&StepRow, &String)| json!({words::STEP: row.name, words::STATE: row.state(), words::WHY: why});
        let steps: Value = waiting.iter().zip(&reasons).map(row).collect();
        out.value(&json!({words::GRAPH_ID: id, words::STATUS: answer.status(), words::REASON: answer.reason(), "steps": steps}));
        return Ok(0);
    }
    out.line(format_args!("{id}  {}", answer.status()));
    if let Some(reason) = answer.reason() {
        out.line(reason);
    }
    if !waiting.is_empty() {
        let mut table = Table::new(&["STEP", "STATE", "WHY"]);
        for (row, why) in waiting.iter().zip(&reasons) {
            table.row([&row.name, row.state(), &times::readable(why)]);
        }
        out.line("");
        out.table(&table);
        if all > STEPS {
            let more = format!("{} more steps have not completed; `llts graph show {id}` lists all", all - STEPS);
            out.line(hints::typed(&more));
        }
    }
    Ok(0)
}

/// The reason why a step waits, taken from its task if it has one.
fn why(client: &Client, row: &StepRow) -> String {
    let step = row.why().unwrap_or_default();
    let unfinished = [Phase::Waiting, Phase::Dispatched, Phase::Preparing, Phase::Running, Phase::Ended];
    let task = unfinished.into_iter().find_map(|phase| row.tasks(phase).next());
    // The task may have been forgotten since the step was read.
    match task.and_then(|task| Some((task, client.ask(&explain(task)).ok()?))) {
        Some((task, explanation)) => format!("{step}; {task}: {}", explanation.why()),
        None => step.to_owned(),
    }
}
