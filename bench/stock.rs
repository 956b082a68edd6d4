//! A store with many waiting tasks, in the form that a controller writes. A service that starts on it loads them all.

use std::path::Path;
use std::sync::Arc;

use super::BenchError;
use api::config::Durability;
use api::wire::requests::submit::Submission;
use base::{Fields, Policy, TaskId, TaskRecord, ToolName, Wall, json, words};
use controller::store::FileStore;
use engine::Record;

/// The number of rows per commit.
const BATCH: u64 = 10_000;

/// The submit time of the first task: long ago, so that the ids of new tasks are later ones.
const FIRST: Wall = Wall::from_micros(1_480_000_000_000_000);

/// Five short parameters.
pub(crate) fn parameters() -> Fields {
    ["alpha", "beta", "gamma", "delta", "epsilon"]
        .into_iter()
        .fold(Fields::new(), |fields, name| fields.with(name, format!("a value of {name}")))
}

/// Writes `tasks` waiting tasks into the store in this folder, which is made.
pub(crate) fn fill(state_dir: &Path, tool: &str, tasks: u64) -> Result<(), BenchError> {
    std::fs::create_dir_all(state_dir).map_err(BenchError::io(format!("make {}", state_dir.display())))?;
    let submission = Submission { parameters: parameters(), ..Submission::new(tool) };
    let mut fields = submission.request().fields().clone();
    fields.remove(words::TYPE);
    let submitted: Arc<str> = json::members(&fields).into();
    let tool = ToolName::new(tool).map_err(|error| BenchError::Unexpected(error.to_string()))?;
    let policy = Arc::new(Policy::default());
    let mut store = FileStore::open(state_dir, Durability::Process)?;
    let mut next = 0;
    while next < tasks {
        let batch: Vec<Record> = (next..tasks.min(next + BATCH))
            .map(|number| {
                let wall = Wall::from_micros(FIRST.micros() + number);
                let id = TaskId::new(wall, [0; TaskId::SUFFIX_LEN]);
                let (submitted, policy) = (Arc::clone(&submitted), Arc::clone(&policy));
                Record::Put(Box::new(TaskRecord::accepted(id, tool.clone(), submitted, policy, wall)))
            })
            .collect();
        store.commit(&batch)?;
        next += BATCH;
    }
    Ok(())
}
