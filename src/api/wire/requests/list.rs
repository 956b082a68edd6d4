//! TASK/DETAILS (docs/sources/controller.md, 2.6): tasks, newest first, in pages.

use super::{Ask, Filter, Kind, Listing, Request, words};
use crate::wire::client::{Selector, TaskView};
use crate::wire::task;
use crate::wire::typed::bad;
use base::TaskRecord;
use base::json::ObjectWriter;

/// All tasks, in pages.
pub const TASK_DETAILS: Kind = Kind::question("TASK/DETAILS", |mut reader| {
    let page = reader.page()?;
    let before = reader.fields.remove(words::BEFORE).map(|value| {
        let id = value.as_text().and_then(|text| text.parse().ok());
        id.ok_or_else(|| bad(words::BEFORE, &value, "the id of a task"))
    });
    Ok(Request::TaskDetails(Filter::new(&reader.fields).older_than(before.transpose()?), page))
});

/// Requests the selected tasks, newest first. The controller may return fewer than `limit`: request the next page from there.
#[must_use]
pub fn tasks(selector: &Selector, offset: u64, limit: u64) -> Ask<Listing<TaskView>> {
    TASK_DETAILS.ask_for_rows().matching(selector).with(words::OFFSET, offset).with(words::LIMIT, limit)
}

/// Requests the selected tasks that are older than `before`, newest first. The answer counts only these.
#[must_use]
pub fn tasks_before(selector: &Selector, before: &str, limit: u64) -> Ask<Listing<TaskView>> {
    TASK_DETAILS.ask_for_rows().matching(selector).with(words::BEFORE, before).with(words::LIMIT, limit)
}

/// Writes a row.
pub(in crate::wire) fn write(record: &TaskRecord, writer: &mut ObjectWriter<'_>) {
    writer.object(&record.id.to_string(), |writer| task::write(record, writer));
}
