//! `llts tdf workers CFG`: the workers of a namespace.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use term::exit::Failure;
use term::session::Session;
use term::table::Table;
use term::times;

#[derive(Args, Debug)]
#[command(
    override_usage = "llts tdf workers [OPTIONS] CFG",
    after_help = "An original worker says neither where it runs nor when it was there."
)]
pub(crate) struct WorkersArgs {
    /// The path of a configuration file
    #[arg(value_name = "CFG")]
    arguments: Vec<String>,
}

pub(crate) fn run(session: &mut Session, args: &WorkersArgs) -> Result<u8, Failure> {
    let [file] = super::exactly(&args.arguments, [super::CFG])?;
    let workers = super::connect(file)?.workers().map_err(|error| super::failure(&error))?;
    if session.out.is_json() {
        let workers: Vec<Value> = workers
            .iter()
            .map(|worker| {
                json!({
                    "name": worker.name,
                    "id": worker.id,
                    "about": worker.about,
                    "seen_ago": worker.seen_ago,
                    "running": worker.running,
                })
            })
            .collect();
        session.out.value(&json!({ "workers": workers }));
        return Ok(0);
    }
    let mut table = Table::new(&["ID", "WORKER", "RUNNING", "KIND", "HOST", "PID", "SEEN"]);
    for worker in &workers {
        let about = |name: &str| match worker.about.as_ref().and_then(|about| about.get(name)) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        };
        let id = worker.id.map(|id| id.to_string()).unwrap_or_default();
        let seen = worker.seen_ago.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let seen = seen.map(|time| format!("{} ago", times::duration(time))).unwrap_or_default();
        let running = worker.running.to_string();
        table.row([&id, &worker.name, &running, &about("kind"), &about("host"), &about("pid"), &seen]);
    }
    session.out.table(&table);
    Ok(0)
}
