//! The record of a task as a flat object, and matching a query against it.
//!
//! One table names the fields that the service sets itself. Everything follows from it: what a push, a query and a page
//! show, what a filter can match, and which names a submitter cannot claim (HAZARDS row W12).

use std::borrow::Cow;

use super::json::{self, ObjectWriter};
use super::words;
use crate::types::{Fields, Phase, Scalar, TaskId, TaskRecord, TaskState, Wall};

/// Writes all that is known of a task into an open object, its id and its phase first.
pub fn write(record: &TaskRecord, out: &mut ObjectWriter<'_>) {
    let (head, tail) = FIELDS.split_at(HEAD_FIELDS);
    write_fields(head, record, out);
    out.members(&record.submitted);
    write_fields(tail, record, out);
}

/// All that is known of a task as one object.
#[must_use]
pub fn to_json(record: &TaskRecord) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let mut writer = ObjectWriter::new(&mut out);
    write(record, &mut writer);
    writer.end();
    out
}

fn write_fields(fields: &[Field], record: &TaskRecord, out: &mut ObjectWriter<'_>) {
    for (name, value) in fields {
        if let Some(value) = value(record) {
            value.write(name, out);
        }
    }
}

/// Whether the service sets this field itself, whatever a submitter sends.
#[must_use]
pub fn is_ours(name: &str) -> bool {
    let of_a_reply =
        [words::TYPE, words::CODE, words::ERROR_MSG, words::WARNING, words::MATCHES, words::WAIT, words::TOTAL];
    of_a_reply.contains(&name) || FIELDS.iter().any(|(ours, _)| *ours == name)
}

/// The given id of a task as JSON: what [`Filter::given_id`] looks for.
#[must_use]
pub fn given_id(record: &TaskRecord) -> Option<String> {
    let member = json::member(&record.submitted, words::GIVEN_ID)?;
    member.split_once(':').map(|(_, value)| value.to_owned())
}

/// The fields that a task must have to be meant: all of them, with equal type and value (document, section 2.3).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    fields: Vec<Wanted>,
}

#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    name: String,
    value: Scalar,
    /// The same as a member of canonical JSON, to be compared with what was submitted.
    member: String,
}

impl Filter {
    /// A filter of all these fields.
    #[must_use]
    pub fn new(fields: &Fields) -> Self {
        let wanted = |(name, value): (&str, &Scalar)| Wanted {
            name: name.to_owned(),
            value: value.clone(),
            member: json::members(&Fields::new().with(name, value.clone())),
        };
        Self { fields: fields.iter().map(wanted).collect() }
    }

    /// Whether every task matches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The one id that can match: `None` when the filter names no id, `Some(None)` when it names one that no task can have.
    #[must_use]
    pub fn task_id(&self) -> Option<Option<TaskId>> {
        let wanted = self.fields.iter().find(|wanted| wanted.name == words::TASK_ID)?;
        Some(wanted.value.as_text().and_then(|text| text.parse().ok()))
    }

    /// The given id that a match must have, as JSON.
    #[must_use]
    pub fn given_id(&self) -> Option<&str> {
        let wanted = self.fields.iter().find(|wanted| wanted.name == words::GIVEN_ID)?;
        wanted.member.split_once(':').map(|(_, value)| value)
    }

    /// Whether this task is meant.
    #[must_use]
    pub fn matches(&self, record: &TaskRecord) -> bool {
        self.fields.iter().all(|wanted| match FIELDS.iter().find(|(name, _)| *name == wanted.name) {
            Some((_, value)) => value(record).is_some_and(|value| value.equals(&wanted.value)),
            None => json::has_member(&record.submitted, &wanted.member),
        })
    }
}

type Field = (&'static str, fn(&TaskRecord) -> Option<Value<'_>>);

enum Value<'a> {
    Text(Cow<'a, str>),
    Integer(i64),
    Decimal(f64),
    /// Unix seconds with six decimals.
    Moment(Wall),
}

impl Value<'_> {
    fn write(&self, name: &str, out: &mut ObjectWriter<'_>) {
        match self {
            Self::Text(text) => out.text(name, text),
            Self::Integer(number) => out.literal(name, number),
            Self::Decimal(number) => out.scalar(name, &Scalar::from(*number)),
            Self::Moment(wall) => out.literal(name, wall),
        }
    }

    fn equals(&self, wanted: &Scalar) -> bool {
        match self {
            Self::Text(text) => wanted.as_text() == Some(text),
            Self::Integer(number) => wanted.as_i64() == Some(*number),
            Self::Decimal(number) => wanted.as_f64() == Some(*number),
            Self::Moment(wall) => wanted.as_f64().and_then(Wall::from_unix_seconds) == Some(*wall),
        }
    }
}

/// How many of [`FIELDS`] stand before the submitted ones: the id comes first so that a SUB can subscribe to one task.
const HEAD_FIELDS: usize = 2;

const FIELDS: [Field; 27] = [
    (words::TASK_ID, |task| Some(Value::Text(task.id.to_string().into()))),
    (words::STATUS, |task| Some(text(words::phase(task.phase())))),
    (words::ROUND, |task| Some(Value::Integer(task.round.0.into()))),
    (words::SEQ, |task| Some(Value::Integer(task.pushes.into()))),
    (words::SUBMIT_TIME, |task| Some(Value::Moment(task.submitted_at))),
    (words::AGENT_ID, |task| task.assignment().map(|run| text(run.agent.as_str()))),
    (words::DISPATCH_TIME, |task| task.assignment().map(|run| Value::Moment(run.dispatched_at))),
    (words::PREPARE_TIME, |task| task.assignment()?.times.prepare.map(Value::Moment)),
    (words::RUN_TIME, |task| task.assignment()?.times.run.map(Value::Moment)),
    (words::END_TIME, |task| task.assignment()?.times.end.map(Value::Moment)),
    (words::FINISH_TIME, finish_time),
    (words::KILLED, |task| task.kill.map(|_| text("TRUE"))),
    (words::KILL_TIME, |task| task.kill.map(|kill| Value::Moment(kill.at))),
    (words::LOSSES, |task| (task.losses > 0).then(|| Value::Integer(task.losses.into()))),
    (words::OUTCOME, outcome),
    (words::REASON, reason),
    (words::EXIT_CODE, |task| task.result().map(|result| Value::Integer(result.exit_code.0.into()))),
    (words::REPORT_LOG, |task| task.result().map(|result| text(&result.report_tail))),
    (words::STDOUT, |task| task.result().map(|result| text(&result.stdout_tail))),
    (words::STDERR, |task| task.result().map(|result| text(&result.stderr_tail))),
    (words::CPU_SECONDS, |task| task.result().map(|result| Value::Decimal(result.cpu_seconds))),
    (words::MAX_RSS_KB, |task| task.result().map(|result| count(result.max_rss_kib))),
    (words::REAPED, |task| task.result().map(|result| Value::Integer(result.reaped.into()))),
    // Fields of the agents' messages: a submitter that sends one of them would confuse an agent.
    (words::SESSION, |_| None),
    (words::WANTED, |_| None),
    (words::PARKED, |_| None),
    (words::CONTROLLER_ID, |_| None),
];

const fn text(text: &str) -> Value<'_> {
    Value::Text(Cow::Borrowed(text))
}

fn count(number: u64) -> Value<'static> {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn finish_time(task: &TaskRecord) -> Option<Value<'_>> {
    match &task.state {
        TaskState::Finished { at, run, .. } => {
            let by_the_agent = run.as_ref().and_then(|(run, _)| run.times.finish);
            Some(Value::Moment(by_the_agent.unwrap_or(*at)))
        }
        _ => None,
    }
}

fn outcome(task: &TaskRecord) -> Option<Value<'_>> {
    match task.state {
        TaskState::Finished { outcome, .. } => Some(text(words::outcome(outcome))),
        _ => None,
    }
}

/// Why there is no exit code of run.sh, else who asked for the kill, else how often an agent was lost.
fn reason(task: &TaskRecord) -> Option<Value<'_>> {
    if let Some(result) = task.result().filter(|result| !result.error.is_empty()) {
        return Some(text(&result.error));
    }
    if let Some(kill) = task.kill {
        return Some(Value::Text(kill.cause.to_string().into()));
    }
    (task.losses > 0 && task.phase() == Phase::Finished && task.result().is_none()).then(|| {
        let (losses, max) = (task.losses, task.losses_max);
        Value::Text(format!("its agent was lost {losses} times; {max} are allowed (__MAX_LOSSES__)").into())
    })
}
