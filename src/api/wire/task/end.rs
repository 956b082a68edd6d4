//! The end of a task as a flat object, for clients that read many ends.

use super::{FIELDS, HEAD_FIELDS, write_field, write_fields};
use crate::wire::command::WORK;
use base::json::ObjectWriter;
use base::{TaskRecord, json, words};

/// The fields of [`write_end`].
const OF_AN_END: [&str; 12] = [
    words::ROUND,
    words::OUTCOME,
    words::REASON,
    words::EXIT_CODE,
    words::REPORT_LOG,
    words::VALUE,
    words::WARM,
    words::STDOUT,
    words::STDERR,
    words::REPORT_BYTES,
    words::STDOUT_BYTES,
    words::STDERR_BYTES,
];

/// Writes the end of a task into an open object: its work and its result, but not its other submitted fields.
pub(in crate::wire) fn write_end(record: &TaskRecord, out: &mut ObjectWriter<'_>) {
    let (head, tail) = FIELDS.split_at(HEAD_FIELDS);
    write_fields(head, record, out);
    for word in WORK {
        out.members(json::member(&record.submitted, word).unwrap_or_default());
    }
    let of_an_end = tail.iter().filter(|(name, _)| OF_AN_END.contains(name));
    of_an_end.for_each(|field| write_field(field, record, out));
}
