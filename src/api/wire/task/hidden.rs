//! Hides the tasks of commands from a sender without [`base::Right::Commands`].

use std::sync::Arc;

use super::{json, words};
use crate::wire::command;
use base::{RunResult, TaskRecord, TaskState};

/// Whether a task has text for a shell: a command, or the input of a fetched program.
#[must_use]
pub fn has_command(record: &TaskRecord) -> bool {
    let has_input = || INPUTS.into_iter().any(|name| json::member(&record.submitted, name).is_some());
    record.tool.is_command() || (record.tool.is_source() && has_input())
}

const INPUTS: [&str; 2] = [words::INPUT, words::INPUT_HEX];

/// Removes the command of a task, its environment, files and outputs. A parameter is part of the environment.
pub fn hide_command(record: &mut TaskRecord) {
    if !has_command(record) {
        return;
    }
    record.submitted = json::members_where(&record.submitted, is_shown).into();
    let state = match &mut record.state {
        TaskState::OutOfContact { was, .. } => &mut **was,
        state => state,
    };
    let result = match state {
        TaskState::Ended { result, .. } | TaskState::Finished { run: Some((_, result)), .. } => result.as_mut(),
        TaskState::Waiting { .. }
        | TaskState::OutOfContact { .. }
        | TaskState::Dispatched(_)
        | TaskState::Preparing(_)
        | TaskState::Finished { run: None, .. } => None,
        TaskState::Running(run) => {
            // The text in the progress comes from the command.
            run.progress = None;
            None
        }
    };
    let past = record.past.iter_mut().filter_map(|past| past.result.as_mut());
    past.chain(result).for_each(hide_outputs);
}

fn is_shown(name: &str) -> bool {
    let is_secret = command::WORDS.contains(&name) || INPUTS.contains(&name) || [words::IN, words::OUT].contains(&name);
    name.starts_with("__") && !is_secret
}

fn hide_outputs(result: &mut Arc<RunResult>) {
    let result = Arc::make_mut(result);
    for text in [&mut result.error, &mut result.report_tail, &mut result.stdout_tail, &mut result.stderr_tail] {
        text.clear();
    }
    result.files = None;
}
