//! TASK/RETRY: another round of a task that has finished.

use super::{Ask, Kind, Request, words};

/// Run a task again that has finished.
pub const TASK_RETRY: Kind = Kind::order("TASK/RETRY", |reader| Ok(Request::Retry(reader.task_id()?)));

/// Asks for another round of a task that has finished.
#[must_use]
pub fn retry(task: &str) -> Ask<()> {
    TASK_RETRY.demand().with(words::TASK_ID, task)
}
