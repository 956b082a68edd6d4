//! TASK/HOLD and TASK/RELEASE: keep a task from starting, or let it start.

use super::{Ask, Kind, Request, words};

/// Keep a task from starting.
pub const TASK_HOLD: Kind = Kind::order("TASK/HOLD", |reader| Ok(Request::Hold(reader.task_id()?, true)));

/// Let a held task start.
pub const TASK_RELEASE: Kind = Kind::order("TASK/RELEASE", |reader| Ok(Request::Hold(reader.task_id()?, false)));

/// Holds a task back, or releases it.
#[must_use]
pub fn hold(task: &str, hold: bool) -> Ask<()> {
    (if hold { TASK_HOLD } else { TASK_RELEASE }).demand().with(words::TASK_ID, task)
}
