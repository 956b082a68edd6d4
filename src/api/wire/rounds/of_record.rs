//! The rows of the history that the record of a task contains: one for each round that has ended.

use std::borrow::Cow;
use std::time::Duration;

use crate::wire::{command, task};
use base::{
    Assignment, ExitCode, Fields, FinishedRound, Outcome, Round, RoundEnd, RoundOutcome, RunResult, TaskRecord,
    TaskState, Wall, json, words,
};

/// The ended rounds of a task that are still in its record, oldest first, each with the moment of its end.
pub fn ended_rounds(record: &TaskRecord) -> impl Iterator<Item = (Round, Wall)> {
    let past = record.past.iter().map(|past| (past.round, past.at));
    past.chain(ended_at(record).map(|at| (record.round, at)))
}

const fn ended_at(record: &TaskRecord) -> Option<Wall> {
    match record.state {
        TaskState::Finished { at, .. } => Some(at),
        _ => None,
    }
}

/// The round that ended last.
pub fn newest(record: &TaskRecord) -> Option<FinishedRound<'_>> {
    let (round, _) = ended_rounds(record).last()?;
    finished_round(record, round)
}

/// An ended round; `None` if it is not in the record.
#[must_use]
pub fn finished_round(record: &TaskRecord, round: Round) -> Option<FinishedRound<'_>> {
    if let TaskState::Finished { at, outcome, run } = &record.state
        && record.round == round
    {
        let (run, result) = run.as_ref().map_or((None, None), |(run, result)| (Some(&**run), result.as_deref()));
        let end = End { at: *at, outcome: RoundOutcome::Ended(*outcome), is_last: true, run, result };
        return Some(row(record, round, &end));
    }
    let past = record.past.iter().find(|past| past.round == round)?;
    let (run, result) = (past.assignment.as_deref(), past.result.as_deref());
    let outcome = outcome_of(past.end, result);
    let end = End { at: past.at, outcome, is_last: past.end == RoundEnd::Retried, run, result };
    Some(row(record, round, &end))
}

/// The outcome of a past round. For a round before a client's retry, the record only has the result: the outcome follows from
/// that.
fn outcome_of(end: RoundEnd, result: Option<&RunResult>) -> RoundOutcome {
    match (end, result) {
        (RoundEnd::Failed, _) => RoundOutcome::Ended(Outcome::Failed),
        (RoundEnd::TimedOut, _) => RoundOutcome::Ended(Outcome::TimedOut),
        (RoundEnd::Lost, _) => RoundOutcome::Ended(Outcome::Lost),
        (RoundEnd::Deferred, _) => RoundOutcome::Deferred,
        (RoundEnd::Returned, _) => RoundOutcome::Returned,
        (RoundEnd::NoTool, _) => RoundOutcome::NoTool,
        (RoundEnd::DiskFull, _) => RoundOutcome::DiskFull,
        (RoundEnd::NotHere, _) => RoundOutcome::NotHere,
        (RoundEnd::Retried, Some(result)) if result.exit_code == ExitCode::SUCCESS => {
            RoundOutcome::Ended(Outcome::Succeeded)
        }
        (RoundEnd::Retried, Some(_)) => RoundOutcome::Ended(Outcome::Failed),
        (RoundEnd::Retried, None) => RoundOutcome::Ended(Outcome::Killed),
    }
}

struct End<'a> {
    at: Wall,
    outcome: RoundOutcome,
    is_last: bool,
    run: Option<&'a Assignment>,
    result: Option<&'a RunResult>,
}

fn row<'a>(record: &'a TaskRecord, round: Round, end: &End<'a>) -> FinishedRound<'a> {
    let before = record.past.iter().rev().find(|past| past.round < round).map(|past| past.at);
    let since = before.unwrap_or(record.submitted_at);
    let times = end.run.map(|run| run.times).unwrap_or_default();
    let given_id = task::given_id_text(record).unwrap_or_default();
    FinishedRound {
        task: record.id,
        round,
        is_last: end.is_last,
        outcome: end.outcome,
        exit_code: end.result.map(|result| result.exit_code.0),
        tool: Cow::Borrowed(record.tool.as_str()),
        command: if record.tool.is_command() { command_of(record) } else { Cow::Borrowed("") },
        job: Cow::Borrowed(record.membership().map_or("", |job| job.name.as_str())),
        given_id: bounded(given_id, FinishedRound::TEXT_BYTES_MAX),
        agent: Cow::Borrowed(end.run.map_or("", |run| run.agent.as_str())),
        host: Cow::Owned(end.run.and_then(|run| run.host).map(|host| host.to_string()).unwrap_or_default()),
        submitted_at: record.submitted_at,
        waited: end.run.map_or(end.at, |run| run.dispatched_at).since(since),
        started_at: times.run,
        ran: times.run.zip(times.end).map(|(start, end)| end.since(start)).map(whole_micros),
        ended_at: end.at,
        line: line_of(record, end),
    }
}

const fn whole_micros(time: Duration) -> Duration {
    Duration::new(time.as_secs(), time.subsec_micros() * 1000)
}

fn command_of(record: &TaskRecord) -> Cow<'static, str> {
    let mut fields = Fields::new();
    for word in [words::SHELL, words::COMMAND] {
        if let Some(value) = json::member(&record.submitted, word).and_then(|member| member.split_once(':')) {
            fields.set(word, json::text_of(value.1).into_owned());
        }
    }
    bounded(Cow::Owned(command::shown(&fields).unwrap_or_default()), FinishedRound::TEXT_BYTES_MAX)
}

/// The most informative line about an end without success.
fn line_of<'a>(record: &TaskRecord, end: &End<'a>) -> Cow<'a, str> {
    if end.outcome == RoundOutcome::Ended(Outcome::Succeeded) {
        return Cow::Borrowed("");
    }
    let last_line = |text: &'a str| text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let said = end.result.and_then(|result| {
        last_line(&result.stderr_tail).or_else(|| last_line(&result.error)).or_else(|| last_line(&result.report_tail))
    });
    let reason = || task::reason_of(record).filter(|reason| end.is_last && !reason.is_empty());
    let signal = || Some(format!("ended by signal {}", end.result?.exit_code.signal()?));
    let line = match said {
        Some(line) => Cow::Borrowed(line),
        None => Cow::Owned(reason().or_else(signal).unwrap_or_default()),
    };
    bounded(line, FinishedRound::LINE_BYTES_MAX)
}

/// The beginning of a text.
fn bounded(text: Cow<'_, str>, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return text;
    }
    let end = text.floor_char_boundary(max);
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[..end]),
        Cow::Owned(mut text) => {
            text.truncate(end);
            Cow::Owned(text)
        }
    }
}
