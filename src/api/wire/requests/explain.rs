//! TASK/EXPLAIN: why a task is in its present state.

use super::{Ask, Filter, Kind, Request, words};
use crate::wire::client::view;
use crate::wire::history;
use base::json::ObjectWriter;
use base::{Fields, Holdup, TaskRecord, ToolDigest};

/// The explanation of the present state of a task.
pub const TASK_EXPLAIN: Kind =
    Kind::question("TASK/EXPLAIN", |reader| Ok(Request::Explain(Filter::new(&reader.fields))));

/// Requests the explanation of the present state of a task, and its log.
#[must_use]
pub fn explain(task: &str) -> Ask<Explanation> {
    TASK_EXPLAIN.ask().with(words::TASK_ID, task)
}

/// Writes the explanation of the present state of a task, and its log.
pub(in crate::wire) fn write(
    record: &TaskRecord,
    holdup: Option<&Holdup>,
    own: Option<ToolDigest>,
    writer: &mut ObjectWriter<'_>,
) {
    writer.text(words::TASK_ID, &record.id.to_string());
    writer.text(words::STATUS, words::phase(record.shown_phase()));
    let why = history::why(record, holdup);
    let own = own.map_or_else(String::new, |own| history::own_version(record, own));
    writer.text(words::WHY, &(why + &own + &history::started(record)));
    writer.text(words::LOG, &history::log(record));
}

view! {
    /// The explanation of the present state of a task.
    Explanation {
        /// The task.
        task: &str = |fields| fields.text(words::TASK_ID).unwrap_or_default();
        /// The word for its phase.
        status: &str = |fields| fields.text(words::STATUS).unwrap_or_default();
        /// One sentence; moments in it are unix seconds.
        why: &str = |fields| fields.text(words::WHY).unwrap_or_default();
        /// A line for each transition, which begins with its moment in unix seconds.
        log: &str = |fields| fields.text(words::LOG).unwrap_or_default();
    }
}
