//! TASK/HOLD and TASK/RELEASE: prevents a task from starting, or permits it again.

use super::{Ask, Kind, Request, words};

/// Prevents a task from starting.
pub const TASK_HOLD: Kind = Kind::order("TASK/HOLD", |reader| Ok(Request::Hold(reader.task_id()?, true)));

/// Permits a held task to start.
pub const TASK_RELEASE: Kind = Kind::order("TASK/RELEASE", |reader| Ok(Request::Hold(reader.task_id()?, false)));

/// Holds a task, or releases it.
#[must_use]
pub fn hold(task: &str, hold: bool) -> Ask<()> {
    (if hold { TASK_HOLD } else { TASK_RELEASE }).demand().with(words::TASK_ID, task)
}
