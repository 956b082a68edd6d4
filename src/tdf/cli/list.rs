//! `llts tdf list CFG [STATE]`: tasks by state, the lowest score first.

use clap::Args;
use serde_json::{Value, json};

use crate::wire::words;
use base::tdf::State;
use term::exit::Failure;
use term::session::Session;
use term::table::Table;

/// Longer inputs are cut in a table.
const INPUT_CHARS_MAX: usize = 60;

const STATE: &str = "STATE: one state, such as open; all but archived otherwise";

#[derive(Args, Debug)]
#[command(override_usage = "llts tdf list [OPTIONS] CFG [STATE]")]
pub(crate) struct ListArgs {
    /// The path of a configuration file, and a state
    #[arg(value_name = "CFG STATE")]
    arguments: Vec<String>,
}

pub(crate) fn run(session: &mut Session, args: &ListArgs) -> Result<u8, Failure> {
    let (first, state) = super::all_but_last(&args.arguments, [super::CFG, STATE])?;
    let states: Vec<State> = match state {
        // Tasks are archived for ever, and no component waits for them.
        None => State::ALL.into_iter().filter(|state| *state != State::Archived).collect(),
        Some(name) => vec![words::parse_state(name).ok_or_else(|| {
            let known: Vec<&str> = State::ALL.into_iter().map(words::state).collect();
            Failure::failed(format!("{name:?} is no state; there are {}", known.join(", ")))
        })?],
    };
    let mut namespace = super::connect(&first[0])?;
    let mut lines = Vec::new();
    for state in states {
        namespace.list(state, |line| lines.push(line)).map_err(|error| super::failure(&error))?;
    }
    if session.out.is_json() {
        let tasks: Vec<Value> = lines
            .iter()
            .map(|line| {
                json!({
                    "id": line.id.0,
                    "set": words::state(line.set),
                    "score": if line.score.is_finite() { json!(line.score) } else { json!("inf") },
                    "round": line.round,
                    "program": line.program,
                    "input": line.input,
                    "worker": line.worker,
                })
            })
            .collect();
        session.out.value(&json!({ "tasks": tasks }));
        return Ok(0);
    }
    let mut table = Table::new(&["TASK", "STATE", "ROUND", "PROGRAM", "INPUT", "WORKER"]);
    for line in &lines {
        let input: String = line.input.chars().take(INPUT_CHARS_MAX).collect();
        let worker = line.worker.as_deref().unwrap_or_default();
        table.row([&line.id.to_string(), words::state(line.set), &line.round, &line.program, &input, worker]);
    }
    session.out.table(&table);
    Ok(0)
}
