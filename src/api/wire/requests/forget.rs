//! TASK/FORGET: the record of a finished task is removed before its time.

use super::{Ask, Kind, Request, words};

/// Forgets a finished task with its family.
pub const TASK_FORGET: Kind = Kind::order("TASK/FORGET", |reader| Ok(Request::Forget(reader.task_id()?)));

/// Requests the controller to forget a finished task.
#[must_use]
pub fn forget(task: &str) -> Ask<()> {
    TASK_FORGET.demand().with(words::TASK_ID, task)
}
