//! TASK/QUERY (document, section 2.3): all that is known of a task, at once or when it has finished.

use std::time::Duration;

use super::{Ask, Filter, Kind, Request, words};
use crate::protocol::client::{Selector, TaskView};
use crate::protocol::json::ObjectWriter;
use crate::protocol::{history, task};
use crate::types::TaskRecord;

/// What is known of one task.
pub const TASK_QUERY: Kind = Kind::question("TASK/QUERY", |mut reader| {
    let wait = reader.wait()?;
    reader.fields.remove(words::WAIT);
    Ok(Request::Query(Filter::new(&reader.fields), wait))
});

/// Asks for the newest task that is meant; with a time, the reply waits until that task has finished or the time is over.
#[must_use]
pub fn query(selector: &Selector, wait: Option<Duration>) -> Ask<TaskView> {
    let ask = TASK_QUERY.ask().matching(selector);
    match wait {
        Some(wait) => ask.with(words::WAIT, millis(wait)),
        None => ask,
    }
}

/// Rounded up: a time that is not over must not become no time at all.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Writes a task, and how many have matched.
pub(in crate::protocol) fn write(record: &TaskRecord, matches: usize, writer: &mut ObjectWriter<'_>) {
    task::write(record, writer);
    history::write(record, writer);
    writer.literal(words::MATCHES, matches);
}
