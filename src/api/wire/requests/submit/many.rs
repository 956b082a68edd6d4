//! TASK/SUBMIT_MANY: a client submits several tasks. Either all are accepted, or none. The request and the answer have a list.

use serde_json::Value;

use super::{Ask, Code, Fields, Kind, Refusal, Request, Submission, Submit, TaskId, json, read, words};
use crate::wire::client::{ReplyError, decode};
use crate::wire::requests::Reader;
use crate::wire::{command, source};
use base::json::ObjectWriter;

/// Submits several tasks.
pub const TASK_SUBMIT_MANY: Kind =
    Kind::order("TASK/SUBMIT_MANY", |reader| Ok(Request::SubmitMany(Box::new(read_many(reader)?))));

/// Limit for the bytes of the fields beside the list, counted once for each task, as a factor of `SUBMIT_BYTES_MAX`.
const SPREAD_MAX: usize = 16;

/// Limit for the terms of all tasks of one frame, as a factor of `AFTER_TERMS_MAX`. Each term takes about a microsecond of the
/// turn, during which no other request is answered.
const TERMS_SPREAD_MAX: usize = 50;

/// Tasks to be accepted together.
#[derive(Clone, Debug, PartialEq)]
pub struct SubmitMany {
    /// The tasks, in order.
    pub tasks: Vec<Submit>,
}

fn read_many(Reader { fields, list, rules, .. }: Reader<'_>) -> Result<SubmitMany, Refusal> {
    let Some(len) = list.len else {
        let found = fields.get(words::TASKS).map_or("missing".to_owned(), |value| format!("{value}, not an array"));
        return Err(bad(format!("{} is {found}; set it to an array of flat objects, one for each task", words::TASKS)));
    };
    if len == 0 {
        return Err(bad(format!("{} is empty; name at least one task", words::TASKS)));
    }
    let limits = rules.submits;
    if len > limits.tasks_max {
        let max = limits.tasks_max;
        let message = format!("{} has {len} tasks; at most {max} are accepted (SUBMIT_MANY_MAX)", words::TASKS);
        return Err(Refusal::new(Code::LimitReached, message));
    }
    if let Some(word) = [words::SUBMIT_KEY, words::GIVEN_ID].into_iter().find(|word| fields.get(word).is_some()) {
        return Err(bad(format!("{word} stands beside {}; give each task its own", words::TASKS)));
    }
    let (bytes, max) = (json::members(&fields).len().saturating_mul(len), limits.bytes_max.saturating_mul(SPREAD_MAX));
    if bytes > max {
        let message = format!(
            "the fields beside {} have {bytes} bytes for {len} tasks; at most {max} are accepted ({SPREAD_MAX} times \
             SUBMIT_BYTES_MAX)",
            words::TASKS
        );
        return Err(Refusal::new(Code::LimitReached, message));
    }
    let task = |(index, own): (usize, Result<Fields, Refusal>)| {
        let merged = own.and_then(|own| {
            let merged = with_shared(own, &fields);
            let (count, max) = (merged.len(), rules.limits.fields);
            let too_many = || {
                Refusal::new(Code::LimitReached, format!("the task has {count} fields, more than {max} (FIELDS_MAX)"))
            };
            if count > max { Err(too_many()) } else { read(merged, rules) }
        });
        merged.map_err(|refusal| refusal.about(index))
    };
    let tasks = list.items.into_iter().enumerate().map(task).collect::<Result<Vec<Submit>, _>>()?;
    let terms: usize =
        tasks.iter().map(|task| task.relations.as_ref().map_or(0, |relations| relations.after.len())).sum();
    let max = limits.terms_max.saturating_mul(TERMS_SPREAD_MAX);
    if terms > max {
        let message = format!(
            "the tasks have {terms} terms in {} together; at most {max} are accepted in one frame ({TERMS_SPREAD_MAX} times \
             AFTER_TERMS_MAX): send fewer tasks at once, or let them wait for a job",
            words::AFTER
        );
        return Err(Refusal::new(Code::LimitReached, message));
    }
    Ok(SubmitMany { tasks })
}

fn bad(message: String) -> Refusal {
    Refusal::new(Code::BadField, message)
}

/// The fields of one task: its own, then the shared ones that it lacks. A tool or command of its own replaces shared work of
/// either kind.
fn with_shared(mut own: Fields, shared: &Fields) -> Fields {
    own.remove(words::TYPE);
    let has_work = command::WORK.into_iter().any(|word| own.get(word).is_some());
    for (name, value) in shared.iter() {
        let is_replaced = has_work && (command::WORK.contains(&name) || source::WORDS.contains(&name));
        if own.get(name).is_none() && !is_replaced {
            own.push(name.to_owned(), value.clone());
        }
    }
    own
}

/// Submits these tasks, all of them or none. `shared` are fields that each of them gets unless it has its own.
#[must_use]
pub fn submit_many(tasks: &[Submission], shared: &Fields) -> Ask<SubmittedMany> {
    let item = |task: &Submission| {
        let mut fields = task.request().fields().clone();
        fields.remove(words::TYPE);
        fields
    };
    let ask = Ask::new(TASK_SUBMIT_MANY.word, decode_many);
    let ask = shared.iter().fold(ask, |ask, (name, value)| ask.with(name, value.clone()));
    ask.with_list(words::TASKS, tasks.iter().map(item).collect())
}

/// Accepted tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubmittedMany {
    /// Their ids, in the order of the request.
    pub ids: Vec<String>,
    /// The numbers of those that had been accepted before, with the same key.
    pub duplicates: Vec<usize>,
    /// A warning about the parts of the submits that were changed.
    pub warning: Option<String>,
}

fn decode_many(frame: &[u8]) -> Result<SubmittedMany, ReplyError> {
    let malformed = || ReplyError::Malformed("the reply is not one to TASK/SUBMIT_MANY".to_owned());
    let value: Value = serde_json::from_slice(frame).map_err(|_| malformed())?;
    let Some(ids) = value.get(words::TASK_IDS) else {
        // A refusal is flat.
        return decode(frame).and_then(|_| Err(malformed()));
    };
    let id = |id: &Value| id.as_str().map(str::to_owned);
    let number = |number: &Value| number.as_u64().and_then(|number| usize::try_from(number).ok());
    let duplicates = value.get(words::DUPLICATES).and_then(Value::as_array);
    Ok(SubmittedMany {
        ids: ids.as_array().and_then(|ids| ids.iter().map(id).collect()).ok_or_else(malformed)?,
        duplicates: duplicates
            .map_or(Some(Vec::new()), |all| all.iter().map(number).collect())
            .ok_or_else(malformed)?,
        warning: value.get(words::WARNING).and_then(Value::as_str).map(str::to_owned),
    })
}

/// Writes the ids of accepted tasks.
pub(in crate::wire) fn write(
    tasks: &[TaskId],
    duplicates: &[usize],
    warning: Option<&str>,
    writer: &mut ObjectWriter<'_>,
) {
    writer.list(words::TASK_IDS, tasks.iter().map(|task| format!("\"{task}\"")));
    if !duplicates.is_empty() {
        writer.list(words::DUPLICATES, duplicates.iter().map(usize::to_string));
    }
    writer.maybe_text(words::WARNING, warning);
}
