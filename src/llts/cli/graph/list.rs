//! `llts graph list` and `llts graph kill`.

use clap::Args;
use serde_json::{Value, json};

use super::super::Session;
use super::super::caller::{caller, command_line};
use super::ids;
use api::wire::client::Listing;
use api::wire::requests::graph::{self, GraphAnswer};
use base::StepState;
use term::exit::Failure;
use term::output::to_value;
use term::table::Table;
use term::times;

#[derive(Args, Debug)]
pub(super) struct ListArgs {
    /// Maximum number of graphs
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u64,
    /// Number of graphs to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Returns when the controller has recorded it. The tasks that run are ended; `llts graph show ID` shows when the graph has.")]
pub(super) struct KillArgs {
    /// The graphs: their ids, the letters at their end, or `last`, the newest
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

pub(super) fn list(session: &mut Session, args: &ListArgs) -> Result<u8, Failure> {
    let Listing { total, rows } = session.client()?.ask(&graph::graphs(args.offset, args.limit))?;
    if session.out.is_json() {
        let graphs: Vec<Value> = rows.iter().map(|graph| to_value(graph.fields())).collect();
        session.out.value(&json!({ "total": total, "graphs": graphs }));
        return Ok(0);
    }
    session.out.table(&table(&rows));
    session.out.next_page("graphs", args.offset, rows.len(), total);
    Ok(0)
}

/// The table of graphs.
pub(in super::super) fn table(graphs: &[GraphAnswer]) -> Table {
    let mut table = Table::new(&["GRAPH", "NAME", "STATUS", "STEPS", "ENDED", "SUBMITTED"]);
    for graph in graphs {
        let ended = graph.in_state(StepState::Completed) + graph.in_state(StepState::Deactivated);
        let submitted = graph.submitted_at().map(times::local).unwrap_or_default();
        let (steps, ended) = (graph.total().to_string(), ended.to_string());
        table.row([graph.id(), graph.name().unwrap_or_default(), graph.status(), &steps, &ended, &submitted]);
    }
    table
}

pub(super) fn kill(session: &mut Session, args: &KillArgs) -> Result<u8, Failure> {
    let client = session.client()?;
    let reason = caller(&command_line());
    let mut killed = Vec::new();
    for text in &args.ids {
        let id = &ids::whole(&client, text)?;
        let result = if client.ask(&graph::query(id, None))?.has_ended() {
            "had ended"
        } else {
            client.ask(&graph::kill(id, &reason))?;
            "killed"
        };
        if session.out.is_json() {
            killed.push(json!({ "graph": id, "result": result }));
        } else {
            session.out.line(format_args!("{id} {result}"));
        }
    }
    if session.out.is_json() {
        session.out.value(&Value::Array(killed));
    }
    Ok(0)
}
