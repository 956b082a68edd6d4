//! `llts tdf stats [CFG]`: how many tasks and workers there are.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::wire::words;
use term::exit::Failure;
use term::session::Session;
use term::table::Table;

#[derive(Args, Debug)]
#[command(override_usage = "llts tdf stats [OPTIONS] [CFG]")]
pub(crate) struct StatsArgs {
    /// The path of a configuration file; without one, what the service works for ([tdf] of its configuration)
    #[arg(value_name = "CFG")]
    arguments: Vec<String>,
}

pub(crate) fn run(session: &mut Session, args: &StatsArgs) -> Result<u8, Failure> {
    let (_, file) = super::all_but_last(&args.arguments, [super::CFG])?;
    let mut namespace = file.map_or_else(|| super::of_service(session), |file| super::connect(file))?;
    let stats = namespace.stats().map_err(|error| super::failure(&error))?;
    if session.out.is_json() {
        let tasks: Map<String, Value> =
            stats.counts.iter().map(|(state, count)| (words::state(*state).to_owned(), json!(count))).collect();
        session.out.value(&json!({
            "tasks": tasks,
            "opened": stats.opened,
            "workers": stats.workers,
            "poisoned": stats.poisoned,
            "server": stats.server,
        }));
        return Ok(0);
    }
    let mut table = Table::pairs();
    for (state, count) in &stats.counts {
        table.row([words::state(*state), &count.to_string()]);
    }
    for (name, count) in [("opened", stats.opened), ("workers", stats.workers), ("poisoned", stats.poisoned)] {
        table.row([name, &count.to_string()]);
    }
    table.row(["server", stats.server.as_deref().unwrap_or_default()]);
    session.out.table(&table);
    Ok(0)
}
