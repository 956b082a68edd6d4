//! TASK/QUERY (docs/sources/controller.md, 2.3): the known data of a task, at once or when it has finished.

use std::time::Duration;

use super::{Ask, Filter, Kind, Request, words};
use crate::wire::client::{Selector, TaskView};
use crate::wire::{history, task};
use base::TaskRecord;
use base::json::ObjectWriter;

/// The known data of one task.
pub const TASK_QUERY: Kind = Kind::question("TASK/QUERY", |mut reader| {
    let wait = reader.wait()?;
    reader.fields.remove(words::WAIT);
    Ok(Request::Query(Filter::new(&reader.fields), wait))
});

/// Requests the newest selected task; with a time, the reply waits until that task has finished or the time has passed.
#[must_use]
pub fn query(selector: &Selector, wait: Option<Duration>) -> Ask<TaskView> {
    let ask = TASK_QUERY.ask().matching(selector);
    match wait {
        Some(wait) => ask.with(words::WAIT, millis(wait)),
        None => ask,
    }
}

/// The time in milliseconds, rounded up, so that a short rest does not become 0.
pub(in crate::wire) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Writes a task, and the number of matches.
pub(in crate::wire) fn write(record: &TaskRecord, matches: usize, writer: &mut ObjectWriter<'_>) {
    task::write(record, writer);
    history::write(record, writer);
    writer.literal(words::MATCHES, matches);
}
