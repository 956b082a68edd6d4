//! TASK/EXPLAIN: why a task stands where it does.

use super::{Ask, Filter, Kind, Request, words};
use crate::protocol::client::view;
use crate::protocol::history;
use crate::protocol::json::ObjectWriter;
use crate::types::{Fields, Holdup, TaskRecord};

/// Why a task stands where it does.
pub const TASK_EXPLAIN: Kind =
    Kind::question("TASK/EXPLAIN", |reader| Ok(Request::Explain(Filter::new(&reader.fields))));

/// Asks why a task stands where it does, and for its log.
#[must_use]
pub fn explain(task: &str) -> Ask<Explanation> {
    TASK_EXPLAIN.ask().with(words::TASK_ID, task)
}

/// Writes why a task stands where it does, and its log.
pub(in crate::protocol) fn write(record: &TaskRecord, holdup: Option<&Holdup>, writer: &mut ObjectWriter<'_>) {
    writer.text(words::TASK_ID, &record.id.to_string());
    writer.text(words::STATUS, words::phase(record.phase()));
    writer.text(words::WHY, &history::why(record, holdup));
    writer.text(words::LOG, &history::log(record));
}

view! {
    /// Why a task stands where it does.
    Explanation
}

impl Explanation {
    /// The task.
    #[must_use]
    pub fn task(&self) -> &str {
        self.0.text(words::TASK_ID).unwrap_or_default()
    }

    /// The word for its phase.
    #[must_use]
    pub fn status(&self) -> &str {
        self.0.text(words::STATUS).unwrap_or_default()
    }

    /// One sentence; moments in it are unix seconds.
    #[must_use]
    pub fn why(&self) -> &str {
        self.0.text(words::WHY).unwrap_or_default()
    }

    /// A line for each transition, which begins with its moment in unix seconds.
    #[must_use]
    pub fn log(&self) -> &str {
        self.0.text(words::LOG).unwrap_or_default()
    }
}
