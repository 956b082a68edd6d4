//! TASK/RETRY: another round of a finished task.

use super::{Ask, Kind, Request, words};

/// Runs a finished task again.
pub const TASK_RETRY: Kind = Kind::order("TASK/RETRY", |reader| Ok(Request::Retry(reader.task_id()?)));

/// Requests another round of a finished task.
#[must_use]
pub fn retry(task: &str) -> Ask<()> {
    TASK_RETRY.demand().with(words::TASK_ID, task)
}
