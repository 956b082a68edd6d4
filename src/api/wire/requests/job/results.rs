//! JOB/RESULTS: the ends of the tasks of a job, many in one answer, in the order in which they ended.
//!
//! A client begins without a cursor and gets one. Each answer to a request with a cursor has the ends after it, and the next
//! cursor. A cursor becomes invalid when the controller ends, or when its readers are silent for long. A request with it is then
//! refused, and the client asks for its tasks by their ids.
//!
//! An end is reported once it is stored. A client that asks for ENDED gets it at once, with the key of its submit, because the
//! answer to the submit may come later. Such an end is not lost if the controller dies at that moment: the agent reports it to
//! the next controller.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{Ask, Code, Kind, Reader, Refusal, Request, name, words};
use crate::wire::client::{ReplyError, TaskView, decode, flat};
use crate::wire::page::PageBytes;
use crate::wire::task;
use base::code::shown;
use base::json::ObjectWriter;
use base::{JobName, Phase, TaskId, TaskRecord, json};

/// The ends of the tasks of a job.
pub const JOB_RESULTS: Kind =
    Kind::question("JOB/RESULTS", |reader| Ok(Request::JobResults(Box::new(read_ask(reader)?))));

/// A request for the ends of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultsAsk {
    /// Name of the job.
    pub job: JobName,
    /// The place behind the last end that the client has; `None` at the beginning.
    pub cursor: Option<Cursor>,
    /// The maximum number of ends.
    pub limit: Option<usize>,
    /// How long the answer may wait for an end.
    pub wait: Option<Duration>,
    /// Whether ends are reported before they are stored.
    pub early: bool,
}

/// A place in the sequence of ends of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The number of the sequence, unique among the sequences of all controllers.
    pub sequence: u64,
    /// The number of ends before the place.
    pub position: u64,
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.sequence, self.position)
    }
}

impl std::str::FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (sequence, position) = text.split_once(':').ok_or(())?;
        let number = |text: &str| text.parse().map_err(drop);
        Ok(Self { sequence: number(sequence)?, position: number(position)? })
    }
}

fn read_ask(mut reader: Reader<'_>) -> Result<ResultsAsk, Refusal> {
    let cursor = match reader.fields.get(words::CURSOR) {
        None => None,
        Some(value) => Some(value.as_text().and_then(|text| text.parse().ok()).ok_or_else(|| {
            let found = shown(&value.to_string());
            let message =
                format!("{} is {found}, not one that JOB/RESULTS has answered; omit it to begin", words::CURSOR);
            Refusal::new(Code::BadField, message)
        })?),
    };
    let limit = reader.page()?.limit;
    Ok(ResultsAsk { job: name(&reader)?, cursor, limit, wait: reader.wait()?, early: is_early(&reader)? })
}

fn is_early(reader: &Reader<'_>) -> Result<bool, Refusal> {
    let Some(value) = reader.fields.get(words::STATUS) else { return Ok(false) };
    match value.as_text().and_then(words::phase_of) {
        Some(Phase::Ended) => Ok(true),
        Some(Phase::Finished) => Ok(false),
        _ => {
            let (found, status) = (shown(&value.to_string()), words::STATUS);
            let message =
                format!("{status} is {found}; JOB/RESULTS tells ends when they are \"FINISHED\", or already \"ENDED\"");
            Err(Refusal::new(Code::BadField, message))
        }
    }
}

/// Begins to read the ends of a job, which may have no task yet.
#[must_use]
pub fn begin(job: &str) -> Ask<Results> {
    Ask::new(JOB_RESULTS.word, decode_results).with(words::JOB, job)
}

/// Requests the ends behind a cursor. The answer waits for an end, at most for `wait`.
#[must_use]
pub fn results(job: &str, cursor: &str, wait: Duration) -> Ask<Results> {
    begin(job).with(words::CURSOR, cursor).with(words::WAIT, crate::wire::requests::query::millis(wait))
}

/// The answer to JOB/RESULTS.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// The cursor of the next request.
    pub cursor: String,
    /// The tasks that have ended, each with its id.
    pub ends: Vec<(TaskId, TaskEnd)>,
}

/// A task that has ended.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskEnd {
    /// Its result.
    Known(Box<TaskView>),
    /// The controller has forgotten the task since its end.
    Forgotten,
}

fn decode_results(frame: &[u8]) -> Result<Results, ReplyError> {
    let malformed = || ReplyError::Malformed("the reply is not one to JOB/RESULTS".to_owned());
    let members: Map<String, Value> = serde_json::from_slice(frame).map_err(|_| malformed())?;
    let mut results = Results::default();
    for (name, value) in members {
        match value {
            Value::Object(row) => {
                let id = name.parse().map_err(|_| malformed())?;
                let end = if row.is_empty() {
                    TaskEnd::Forgotten
                } else {
                    TaskEnd::Known(Box::new(flat(row).ok_or_else(malformed)?.into()))
                };
                results.ends.push((id, end));
            }
            Value::String(cursor) if name == words::CURSOR => results.cursor = cursor,
            _ => {}
        }
    }
    // A refusal has no cursor.
    if results.cursor.is_empty() { decode(frame).and_then(|_| Err(malformed())) } else { Ok(results) }
}

/// One end in an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct EndRow {
    /// The task.
    pub task: TaskId,
    /// Its record, if it is still kept.
    pub record: Option<Box<TaskRecord>>,
    /// The place behind this end.
    pub next: u64,
}

/// Some ends of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct EndRows {
    /// The ends, in their order.
    pub rows: Vec<EndRow>,
    /// The place behind them.
    pub next: Cursor,
    /// Whether they may be reported before they are stored.
    pub early: bool,
}

/// Writes ends until the answer is full, then the cursor behind the last one.
pub(in crate::wire) fn write(ends: &EndRows, page_bytes: PageBytes, writer: &mut ObjectWriter<'_>) {
    let mut next = ends.next;
    for (number, row) in ends.rows.iter().enumerate() {
        writer.object(&row.task.to_string(), |writer| {
            let Some(record) = &row.record else { return };
            task::write_end(record, writer);
            if ends.early {
                writer.members(json::member(&record.submitted, words::SUBMIT_KEY).unwrap_or_default());
            }
        });
        if writer.bytes() > page_bytes.0 && number + 1 < ends.rows.len() {
            next.position = row.next;
            break;
        }
    }
    writer.text(words::CURSOR, &next.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::reply;
    use crate::wire::reply::Reply;

    fn rows(count: u64) -> Vec<EndRow> {
        let id = |number| TaskId::new(base::Wall::from_micros(number), [0; 5]);
        (1..=count).map(|number| EndRow { task: id(number), record: None, next: number }).collect()
    }

    fn answered(rows: Vec<EndRow>, page_bytes: usize) -> Results {
        let next = Cursor { sequence: 7, position: rows.len() as u64 };
        let ends = Box::new(EndRows { rows, next, early: false });
        let bytes = reply::encode(JOB_RESULTS.word, &Reply::Results(ends), PageBytes(page_bytes));
        begin("j").decode(&bytes).unwrap()
    }

    #[test]
    fn an_answer_ends_when_it_is_full_and_its_cursor_says_where() {
        let whole = answered(rows(3), 1000);
        assert_eq!((whole.cursor.as_str(), whole.ends.len()), ("7:3", 3));
        assert!(whole.ends.iter().all(|(_, end)| *end == TaskEnd::Forgotten));
        let cut = answered(rows(3), 60);
        assert_eq!((cut.cursor.as_str(), cut.ends.len()), ("7:1", 1));
        assert_eq!(answered(Vec::new(), 0), Results { cursor: "7:0".to_owned(), ends: Vec::new() });
    }

    #[test]
    fn a_reply_that_is_no_answer_is_told_apart_from_a_refusal() {
        let refused = begin("j").decode(br#"{"__CODE__":-1004,"__ERROR_MSG__":"gone"}"#).unwrap_err();
        assert!(refused.is_no_such_task(), "{refused}");
        for frame in [b"x".as_slice(), br#"{"__CODE__":0}"#, br#"{"__CODE__":0,"__CURSOR__":"1:1","x":{}}"#] {
            assert!(matches!(begin("j").decode(frame), Err(ReplyError::Malformed(_))));
        }
    }

    #[test]
    fn a_cursor_is_read_back() {
        let cursor = Cursor { sequence: u64::MAX, position: 3 };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", "1", "1:", ":1", "1:x", "1:2:3", "-1:2"] {
            assert_eq!(text.parse::<Cursor>(), Err(()), "{text}");
        }
    }
}
