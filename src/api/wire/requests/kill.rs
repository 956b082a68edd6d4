//! TASK/KILL (docs/sources/controller.md, 2.2): a client ends a task. A message of the same kind passes this on to agents.

use std::sync::Arc;

use super::{Ask, Kind, Reader, Request, words};
use crate::wire::client::view;
use base::{Fields, is_harmful};

/// Ends a task.
pub const TASK_KILL: Kind = Kind::order("TASK/KILL", |reader| Ok(Request::Kill(reader.task_id()?, reason(&reader))));

/// Requests the end of a task. `reason` names the originator, so that people can see later why it ended.
#[must_use]
pub fn kill(task: &str, reason: &str) -> Ask<Killed> {
    TASK_KILL.ask().with(words::TASK_ID, task).with(words::REASON, reason)
}

view! {
    /// The answer to a kill.
    Killed {
        /// A warning about what may undo the kill.
        warning: Option<&str> = |fields| fields.text(words::WARNING);
    }
}

/// The reason given by the sender of a kill: a text for people, so it is truncated instead of refused.
pub(super) fn reason(reader: &Reader<'_>) -> Option<Arc<str>> {
    const CHARS_MAX: usize = 200;
    let text = reader.text(words::REASON)?;
    Some(text.chars().filter(|c| !is_harmful(*c)).take(CHARS_MAX).collect::<String>().into())
}
