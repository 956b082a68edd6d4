//! The record of a task as a flat object, and matching a query against it.
//!
//! One table names the fields that the service sets itself. It determines the content of pushes, queries and pages, the fields
//! that a filter can match, and the names that a submitter cannot use (docs/design/hazards.md, W12).

mod end;
mod filter;
mod hidden;

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::task_files::kept_text;
use base::json::ObjectWriter;
use base::{
    Acknowledgement, ExitCode, Fields, KillCause, Outcome, Phase, Scalar, TaskRecord, TaskState, ToldProgress, Wall,
    json, words,
};

pub(super) use end::write_end;
pub use filter::Filter;
pub use hidden::{has_command, hide_command};

/// Writes the known data of a task into an open object, its id and its phase first.
pub fn write(record: &TaskRecord, out: &mut ObjectWriter<'_>) {
    let (head, tail) = FIELDS.split_at(HEAD_FIELDS);
    write_fields(head, record, out);
    out.members(&record.submitted);
    write_fields(tail, record, out);
}

/// Writes the known data with these names.
pub(super) fn write_some(record: &TaskRecord, names: &[&str], out: &mut ObjectWriter<'_>) {
    FIELDS.iter().filter(|(name, _)| names.contains(name)).for_each(|field| write_field(field, record, out));
}

/// The known data of a task as one object.
#[must_use]
pub fn to_json(record: &TaskRecord) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let mut writer = ObjectWriter::new(&mut out);
    write(record, &mut writer);
    writer.end();
    out
}

fn write_fields(fields: &[Field], record: &TaskRecord, out: &mut ObjectWriter<'_>) {
    fields.iter().for_each(|field| write_field(field, record, out));
}

fn write_field((name, value): &Field, record: &TaskRecord, out: &mut ObjectWriter<'_>) {
    if let Some(value) = value(record) {
        value.write(name, out);
    }
}

/// Whether the service sets this field itself, whatever a submitter sends.
#[must_use]
pub fn is_ours(name: &str) -> bool {
    // All words begin like this, but few parameters do.
    if !name.starts_with("__") {
        return words::is_of_a_round(name);
    }
    let of_a_reply =
        [words::TYPE, words::CODE, words::ERROR_MSG, words::WARNING, words::MATCHES, words::WAIT, words::TOTAL];
    let ours = of_a_reply.contains(&name) || FIELDS.iter().any(|(ours, _)| *ours == name);
    let of_others = OF_OTHER_MESSAGES.contains(&name) || words::OF_LISTS.contains(&name);
    ours || of_others || words::OF_STEPS.contains(&name)
}

/// The given id of a task as JSON, as in [`Filter::given_id`].
#[must_use]
pub fn given_id(record: &TaskRecord) -> Option<&str> {
    json::member(&record.submitted, words::GIVEN_ID).and_then(json::value_of)
}

/// The given id of a task as text.
#[must_use]
pub fn given_id_text(record: &TaskRecord) -> Option<Cow<'_, str>> {
    given_id(record).map(json::text_of)
}

/// The submit key of a task, as JSON.
#[must_use]
pub fn submit_key(record: &TaskRecord) -> Option<&str> {
    json::member(&record.submitted, words::SUBMIT_KEY).and_then(json::value_of)
}

/// The beginning of the submit keys of tasks of lists.
pub const LIST_KEY: &str = "lists ";

/// Whether a master of lists has submitted a task: its command must not run twice, even after a `kill -9`.
#[must_use]
pub fn is_of_a_list(record: &TaskRecord) -> bool {
    submit_key(record).is_some_and(|key| key.strip_prefix('"').is_some_and(|key| key.starts_with(LIST_KEY)))
}

/// Whether a task was submitted with exactly these fields, in any order; the service has added `__ALLOWED_SOURCES__`.
#[must_use]
pub fn is_submitted_as(record: &TaskRecord, fields: &Fields) -> bool {
    // As JSON: the text "1" differs from the number 1.
    let members = |fields: &Fields| -> BTreeMap<String, String> {
        let member =
            |(name, value): (&str, &Scalar)| (name.to_owned(), json::members(&Fields::new().with(name, value.clone())));
        fields.iter().filter(|(name, _)| *name != words::ALLOWED_SOURCES).map(member).collect()
    };
    let stored = json::parse(format!("{{{}}}", record.submitted).as_bytes(), &json::FieldLimits::TRUSTED);
    stored.is_ok_and(|stored| members(&stored) == members(fields))
}

type Field = (&'static str, fn(&TaskRecord) -> Option<Value<'_>>);

enum Value<'a> {
    Text(Cow<'a, str>),
    Integer(i64),
    Decimal(f64),
    Null,
    /// Unix seconds with six decimals.
    Moment(Wall),
    Truth(bool),
}

impl Value<'_> {
    fn write(&self, name: &str, out: &mut ObjectWriter<'_>) {
        match self {
            Self::Text(text) => out.text(name, text),
            Self::Integer(number) => out.literal(name, number),
            Self::Decimal(number) => out.scalar(name, &Scalar::from(*number)),
            Self::Null => out.scalar(name, &Scalar::Null),
            Self::Moment(wall) => out.moment(name, *wall),
            Self::Truth(truth) => out.literal(name, truth),
        }
    }

    fn equals(&self, wanted: &Scalar) -> bool {
        match self {
            Self::Text(text) => wanted.as_text() == Some(text),
            Self::Integer(number) => wanted.as_i64() == Some(*number),
            Self::Decimal(number) => wanted.as_f64() == Some(*number),
            Self::Null => *wanted == Scalar::Null,
            Self::Moment(wall) => wanted.as_f64().and_then(Wall::from_unix_seconds) == Some(*wall),
            Self::Truth(truth) => wanted.as_bool() == Some(*truth),
        }
    }
}

/// The number of [`FIELDS`] before the submitted ones: the id comes first so that a SUB can subscribe to one task.
const HEAD_FIELDS: usize = 2;

const FIELDS: [Field; 43] = [
    (words::TASK_ID, |task| Some(Value::Text(task.id.to_string().into()))),
    (words::STATUS, |task| Some(text(words::phase(task.shown_phase())))),
    (words::ROUND, |task| Some(Value::Integer(task.round.0.into()))),
    (words::SEQ, |task| Some(Value::Integer(task.pushes.into()))),
    (words::TOOL_DIGEST, |task| task.pin.map(|pin| Value::Text(pin.to_string().into()))),
    (words::SUBMIT_TIME, |task| Some(Value::Moment(task.submitted_at))),
    (words::AGENT_ID, |task| task.last_run().map(|run| text(run.agent.as_str()))),
    (words::AGENT_IP, |task| task.last_run().and_then(|run| run.host).map(|host| Value::Text(host.to_string().into()))),
    (words::DISPATCH_TIME, |task| task.last_run().map(|run| Value::Moment(run.dispatched_at))),
    (words::PREPARE_TIME, |task| task.last_run()?.times.prepare.map(Value::Moment)),
    (words::RUN_TIME, |task| task.last_run()?.times.run.map(Value::Moment)),
    (words::END_TIME, |task| task.last_run()?.times.end.map(Value::Moment)),
    (words::FINISH_TIME, |task| task.finished_at().map(Value::Moment)),
    (words::PROGRESS, |task| Some(Value::Decimal(told(task)?.progress.fraction()))),
    (words::PROGRESS_TEXT, |task| Some(&*told(task)?.progress.text).filter(|told| !told.is_empty()).map(text)),
    (words::PROGRESS_TIME, |task| Some(Value::Moment(told(task)?.at))),
    (words::NOT_BEFORE, not_before),
    (words::HELD_TIME, |task| task.held.map(Value::Moment)),
    (words::KILLED, killed),
    (words::KILL_TIME, kill_time),
    (words::FAILS, |task| times(task.counts.fails)),
    (words::TIMEOUTS, |task| times(task.counts.timeouts)),
    (words::LOSSES, |task| times(task.counts.losses)),
    (words::DEFERS, |task| times(task.counts.defers)),
    (words::ACK_TIME, |task| match task.acknowledgement {
        Acknowledgement::Received(at) => Some(Value::Moment(at)),
        Acknowledgement::None | Acknowledgement::GivenUp(_) => None,
    }),
    (words::OUTCOME, outcome),
    (words::UNCONFIRMED, unconfirmed),
    (words::REASON, reason),
    (words::EXIT_CODE, exit_code),
    (words::REPORT_LOG, report_log),
    (words::VALUE, |task| task.result()?.value.as_deref().map(text)),
    (words::WARM, |task| Some(Value::Truth(task.result()?.warm?))),
    (words::STDOUT, |task| task.result().map(|result| text(&result.stdout_tail))),
    (words::STDERR, |task| task.result().map(|result| text(&result.stderr_tail))),
    (words::REPORT_BYTES, |task| Some(count(task.result()?.output_bytes?.report))),
    (words::STDOUT_BYTES, |task| Some(count(task.result()?.output_bytes?.stdout))),
    (words::STDERR_BYTES, |task| Some(count(task.result()?.output_bytes?.stderr))),
    (words::OUT_FILES, |task| Some(Value::Text(kept_text(task.result()?.files.as_ref()?).into()))),
    (words::OUT_NOTE, |task| task.result()?.files.as_ref()?.said().map(text)),
    (words::OUT_IDLE, |task| Some(&*task.result()?.files.as_ref()?.idle).filter(|idle| !idle.is_empty()).map(text)),
    (words::CPU_SECONDS, |task| task.result().map(|result| Value::Decimal(result.cpu_seconds))),
    (words::MAX_RSS_KB, |task| task.result().map(|result| count(result.max_rss_kib))),
    (words::REAPED, |task| task.result().map(|result| Value::Integer(result.reaped.into()))),
];

/// Fields of other messages. Submitted fields with these names would confuse the readers of those messages.
const OF_OTHER_MESSAGES: [&str; 20] = [
    words::ALLOWED_SOURCES,
    words::GRAPH,
    words::SESSION,
    words::WANTED,
    words::PARKED,
    words::SLACK,
    words::LEASE,
    words::BEAT,
    words::KILL_BUDGET,
    words::CONTROLLER_ID,
    words::DUPLICATE,
    words::LOG,
    words::WHY,
    words::RETRY_AFTER,
    words::UNTIL_RELEASED,
    words::TASKS,
    words::TASK_IDS,
    words::INDEX,
    words::COUNT,
    words::DUPLICATES,
];

/// The progress of a run, while it goes on.
pub(super) fn told(task: &TaskRecord) -> Option<&ToldProgress> {
    let run = task.last_run().filter(|_| task.shown_phase() == Phase::Running)?;
    run.progress.as_deref()
}

const fn text(text: &str) -> Value<'_> {
    Value::Text(Cow::Borrowed(text))
}

fn count(number: u64) -> Value<'static> {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Present in FINISHED (docs/sources/controller.md, 2.3). It is null where run.sh never ran, or where its end is unknown; a task that
/// was skipped has none.
fn exit_code(task: &TaskRecord) -> Option<Value<'_>> {
    let code = task.result().map(|result| Value::Integer(result.exit_code.0.into()));
    code.or_else(|| (is_finished(task) && !is_skipped(task)).then_some(Value::Null))
}

/// Like the exit code, but empty instead of null.
fn report_log(task: &TaskRecord) -> Option<Value<'_>> {
    let log = task.result().map(|result| text(&result.report_tail));
    log.or_else(|| is_finished(task).then_some(text("")))
}

const fn is_skipped(task: &TaskRecord) -> bool {
    matches!(task.state, TaskState::Finished { outcome: Outcome::Skipped, .. })
}

const fn is_finished(task: &TaskRecord) -> bool {
    matches!(task.state, TaskState::Finished { .. })
}

fn outcome(task: &TaskRecord) -> Option<Value<'_>> {
    match task.state {
        TaskState::Finished { outcome, .. } => Some(text(words::outcome(outcome))),
        _ => None,
    }
}

/// Absent before the end of the task: its processes are not reported yet, so there is nothing to confirm.
fn unconfirmed(task: &TaskRecord) -> Option<Value<'_>> {
    let is_over = matches!(task.state, TaskState::Finished { .. });
    (is_over && task.unconfirmed).then_some(Value::Truth(true))
}

fn times(count: u32) -> Option<Value<'static>> {
    (count > 0).then(|| Value::Integer(count.into()))
}

fn not_before(task: &TaskRecord) -> Option<Value<'_>> {
    match task.state {
        TaskState::Waiting { not_before } => not_before.map(Value::Moment),
        _ => None,
    }
}

/// Absent for a skipped task, which was not killed.
fn kill_time(task: &TaskRecord) -> Option<Value<'_>> {
    let kill = task.kill.as_ref().filter(|kill| !matches!(kill.cause, KillCause::Skipped(_)));
    kill.map(|kill| Value::Moment(kill.at))
}

/// The flag of the original protocol. It is set for requested kills only, not for exceeded times, nor for a kill that came after
/// the end of the run.
fn killed(task: &TaskRecord) -> Option<Value<'_>> {
    if matches!(task.state, TaskState::Finished { outcome: Outcome::Succeeded, .. }) {
        return None;
    }
    match task.kill.as_ref()?.cause {
        KillCause::Client(_) | KillCause::ParentEnded(_) | KillCause::GraphEnds(_) | KillCause::Unstored => {
            Some(text("TRUE"))
        }
        KillCause::Expired | KillCause::TimedOut | KillCause::Skipped(_) => None,
    }
}

/// The reason of the end of a task, where that is more than an exit code.
#[must_use]
pub fn reason_of(task: &TaskRecord) -> Option<String> {
    if let Value::Text(text) = reason(task)? { Some(text.into_owned()) } else { None }
}

/// The originator of the end. Without one, the reason why run.sh has no exit code. Without that, the exceeded budget.
fn reason(task: &TaskRecord) -> Option<Value<'_>> {
    let result = task.result().filter(|result| !result.error.is_empty());
    let error = || result.map(|result| text(&result.error));
    // If run.sh did run, only the remains are reported.
    let left = result.filter(|result| result.exit_code.0 > ExitCode::KILLED_PREPARING.0).map(|result| &result.error);
    let and_left = |sentence: String| match left {
        Some(left) => Value::Text(format!("{sentence}; {left}").into()),
        None => Value::Text(sentence.into()),
    };
    let TaskState::Finished { outcome, .. } = task.state else {
        let kill = task.kill.as_ref().map(|kill| and_left(kill.cause.to_string()));
        return kill.or_else(error);
    };
    if let (Outcome::Succeeded | Outcome::Failed, Some(error)) = (outcome, error()) {
        return Some(error);
    }
    let (counts, policy) = (task.counts, &task.policy);
    let sentence = match outcome {
        Outcome::Succeeded => return None,
        Outcome::Killed | Outcome::Expired | Outcome::Skipped => task.kill.as_ref()?.cause.to_string(),
        Outcome::Lost => {
            let (losses, max) = (counts.losses, policy.losses_max);
            let times = if losses == 1 { String::new() } else { format!(" {losses} times") };
            beyond(&format!("its agent was lost{times}"), max, words::MAX_LOSSES)
        }
        Outcome::TimedOut => {
            let (timeouts, max) = (counts.timeouts, policy.timeouts_max);
            let seconds = policy.timeout.unwrap_or_default().as_secs_f64();
            let runs = if timeouts == 1 { "the run".to_owned() } else { format!("{timeouts} runs") };
            beyond(&format!("{runs} took longer than {seconds} s (__TIMEOUT__)"), max, words::MAX_TIMEOUTS)
        }
        Outcome::Failed => {
            let (fails, max) = (counts.fails, policy.fails_max);
            let deferred = task.result().is_some_and(|result| result.exit_code == ExitCode::DEFERRED);
            if deferred && policy.defers_max > 0 {
                let defers = policy.defers_max;
                format!("it asked for more than {defers} later runs (__MAX_DEFERS__)")
            } else if max > 0 {
                beyond(&format!("{fails} runs failed"), max, words::MAX_FAILS)
            } else if task.result().is_some_and(|result| result.exit_code == ExitCode::SUCCESS) {
                "it wrote to stderr (__FAIL_ON_STDERR__)".to_owned()
            } else {
                return None;
            }
        }
    };
    Some(and_left(sentence))
}

/// A clause about runs of which one was more than its limit allows.
fn beyond(runs: &str, max: u32, limit: &str) -> String {
    let allowed = if max == 0 { "none".to_owned() } else { max.to_string() };
    format!("{runs}; {limit} allows {allowed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submitter_can_use_no_word_of_the_service() {
        let ours = FIELDS.iter().map(|(name, _)| *name).chain(OF_OTHER_MESSAGES).chain(words::OF_LISTS);
        for word in ours.chain(words::OF_STEPS) {
            assert!(is_ours(word), "{word}");
        }
    }
}
