//! `llts stats`: the numbers of tasks and agents.

use serde_json::{Map, Value, json};

use api::wire::requests::stats;
use base::words;
use term::exit::Failure;
use term::session::Session;
use term::table::Table;

pub(super) fn run(session: &mut Session) -> Result<u8, Failure> {
    let client = session.client()?;
    let tasks = client.ask(&stats::tasks())?;
    let agents = client.ask(&stats::agents())?;
    if session.out.is_json() {
        let tasks: Map<String, Value> =
            tasks.by_phase().map(|(phase, count)| (words::phase(phase).to_owned(), count.into())).collect();
        session.out.value(&json!({
            "tasks": tasks,
            "agents": { "total": agents.total, "free": agents.free, "busy": agents.busy, "lost": agents.lost },
        }));
        return Ok(0);
    }
    let mut table = Table::new(&["TASKS", ""]);
    for (phase, count) in tasks.by_phase() {
        table.row([words::phase(phase), &count.to_string()]);
    }
    session.out.table(&table);
    session.out.line("");
    let mut table = Table::new(&["AGENTS", ""]);
    for (name, count) in [("TOTAL", agents.total), ("FREE", agents.free), ("BUSY", agents.busy), ("LOST", agents.lost)]
    {
        table.row([name, &count.to_string()]);
    }
    session.out.table(&table);
    Ok(0)
}
