//! TASK/KILL (document, section 2.2): a client ends a task. Agents hear of it by a message of the same kind.

use std::sync::Arc;

use super::{Ask, Kind, Reader, Request, words};

/// End a task.
pub const TASK_KILL: Kind = Kind::order("TASK/KILL", |reader| Ok(Request::Kill(reader.task_id()?, reason(&reader))));

/// Asks for the end of a task. `reason` says who asks, for those who wonder later why it ended.
#[must_use]
pub fn kill(task: &str, reason: &str) -> Ask<()> {
    TASK_KILL.demand().with(words::TASK_ID, task).with(words::REASON, reason)
}

/// What the sender of a kill says of it: for people, so it is cut rather than refused.
fn reason(reader: &Reader<'_>) -> Option<Arc<str>> {
    const CHARS_MAX: usize = 200;
    let text = reader.text(words::REASON)?;
    Some(text.chars().filter(|c| !c.is_control()).take(CHARS_MAX).collect::<String>().into())
}
