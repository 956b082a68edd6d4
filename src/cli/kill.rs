//! `llts kill`: ask for the end of tasks.

use clap::Args;
use serde_json::{Value, json};

use super::Session;
use super::exit::Failure;
use super::output::note;
use crate::client::ClientError;

#[derive(Args, Debug)]
#[command(after_help = "Returns when the controller has noted it; `llts wait TASK` waits for the end itself.")]
pub(super) struct KillArgs {
    /// The tasks
    #[arg(value_name = "TASK", required = true)]
    ids: Vec<String>,
}

/// Asks for each, whatever became of the others.
pub(super) fn run(session: &mut Session, args: &KillArgs) -> Result<u8, Failure> {
    let client = session.client()?;
    let mut worst = 0;
    let mut values = Vec::new();
    for id in &args.ids {
        let failure = match client.kill(id) {
            Ok(()) => None,
            Err(error @ ClientError::Reply(_)) => Some(Failure::from(error)),
            // The next one would fail just so.
            Err(error) => return Err(error.into()),
        };
        let (code, error) = failure.map_or((0, Value::Null), |failure| {
            note(&format!("{id}: {}", failure.sentence));
            (failure.exit, failure.sentence.into())
        });
        worst = worst.max(code);
        values.push(json!({ "task": id, "error": error }));
    }
    if session.out.is_json() {
        session.out.value(&Value::Array(values));
    }
    Ok(worst)
}
