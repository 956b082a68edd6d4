//! The answers about the history: written by the controller, read by a client.

use std::borrow::Cow;
use std::time::Duration;

use super::{GroupKey, Listing, words};
use crate::wire::client::{ReplyError, decode_listing, view};
use crate::wire::page::{PageBytes, PageOf};
use base::json::ObjectWriter;
use base::{Fields, FinishedRound, Incident, Outcome, RoundOutcome, ToolName, Wall};

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryAnswer {
    /// The rows of the page.
    pub found: HistoryPage,
    /// The position of the page.
    pub page: PageOf,
    /// A sentence about damaged files that were found meanwhile.
    pub damaged: Option<String>,
}

/// A page of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum HistoryPage {
    /// Finished rounds.
    Rounds(Vec<FinishedRound<'static>>),
    /// Groups of them.
    Summary(Vec<GroupSummary>),
    /// Incidents, newest first.
    Incidents(Vec<Incident>),
}

/// The rounds of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSummary {
    /// The values that they share. A day or an hour is the moment at which it begins.
    pub key: Vec<(GroupKey, String)>,
    /// Number of rounds of each outcome, in the order of [`RoundOutcome::ALL`].
    pub counts: [u64; RoundOutcome::ALL.len()],
    /// The 50th, 90th and 99th percentile of the run times, accurate to five percent; `None` without a run.
    pub ran: Option<[Duration; 3]>,
    /// The same percentiles of the waiting times.
    pub waited: [Duration; 3],
}

/// Whether a round had a command. The other built-in operation may have inputs for a shell.
pub(super) fn has_command(tool: &str) -> bool {
    ToolName::new(tool).is_err()
}

/// Removes the texts of commands, and the last lines of their outputs.
pub(in crate::wire) fn hide_commands(answer: &mut HistoryAnswer) {
    let HistoryPage::Rounds(rounds) = &mut answer.found else { return };
    for round in rounds.iter_mut().filter(|round| has_command(&round.tool)) {
        (round.command, round.line) = (Cow::Borrowed(""), Cow::Borrowed(""));
    }
}

/// Writes the answer.
pub(in crate::wire) fn write(answer: &HistoryAnswer, page_bytes: PageBytes, writer: &mut ObjectWriter<'_>) {
    writer.maybe_text(words::DAMAGED, answer.damaged.as_deref());
    let page = answer.page;
    match &answer.found {
        HistoryPage::Rounds(rounds) => page.write(rounds, "rounds", page_bytes, writer, |round, writer| {
            let name = format!("{}:{}", round.task, round.round);
            writer.object(&name, |writer| write_round(round, writer));
        }),
        HistoryPage::Summary(groups) => page.write(groups, "groups", page_bytes, writer, |group, writer| {
            let name: Vec<_> = group.key.iter().map(|(_, value)| value.as_str()).collect();
            writer.object(&name.join("\t"), |writer| write_group(group, writer));
        }),
        HistoryPage::Incidents(incidents) => {
            let numbered: Vec<_> = (page.offset..).zip(incidents).collect();
            page.write(&numbered, "incidents", page_bytes, writer, |(number, incident), writer| {
                writer.object(&number.to_string(), |writer| write_incident(incident, writer));
            });
        }
    }
}

fn write_round(round: &FinishedRound<'_>, writer: &mut ObjectWriter<'_>) {
    let text = |writer: &mut ObjectWriter<'_>, name, value: &str| {
        writer.maybe_text(name, Some(value).filter(|value| !value.is_empty()));
    };
    writer.text(words::TASK_ID, &round.task.to_string());
    writer.literal(words::ROUND, round.round);
    writer.literal(words::IS_LAST, round.is_last);
    writer.text(words::OUTCOME, words::round_outcome(round.outcome));
    writer.maybe(words::EXIT_CODE, round.exit_code);
    writer.text(words::OPERATION, &round.tool);
    text(writer, words::SHELL, &round.command);
    text(writer, words::JOB, &round.job);
    text(writer, words::GIVEN_ID, &round.given_id);
    text(writer, words::AGENT_ID, &round.agent);
    text(writer, words::AGENT_IP, &round.host);
    writer.moment(words::SUBMIT_TIME, round.submitted_at);
    writer.literal(words::WAITED_SECONDS, round.waited.as_secs_f64());
    writer.maybe_moment(words::RUN_TIME, round.started_at);
    writer.maybe(words::RAN_SECONDS, round.ran.map(|ran| ran.as_secs_f64()));
    writer.moment(words::END_TIME, round.ended_at);
    text(writer, words::REASON, &round.line);
}

const RAN: [&str; 3] = [words::RUN_P50, words::RUN_P90, words::RUN_P99];
const WAITED: [&str; 3] = [words::WAIT_P50, words::WAIT_P90, words::WAIT_P99];

fn write_group(group: &GroupSummary, writer: &mut ObjectWriter<'_>) {
    for (key, value) in &group.key {
        writer.text(key.word(), value);
    }
    writer.literal(words::COUNT, group.counts.iter().sum::<u64>());
    for (outcome, count) in RoundOutcome::ALL.into_iter().zip(group.counts).filter(|(_, count)| *count > 0) {
        writer.literal(words::round_outcome(outcome), count);
    }
    let times =
        group.ran.iter().flat_map(|times| RAN.into_iter().zip(times)).chain(WAITED.into_iter().zip(&group.waited));
    times.for_each(|(name, time)| writer.literal(name, time.as_secs_f64()));
}

/// A page of an answer, with a sentence about damage.
#[derive(Clone, Debug, PartialEq)]
pub struct Found<T> {
    /// The page.
    pub listing: Listing<T>,
    /// The damage.
    pub damaged: Option<String>,
}

pub(super) fn decode<T: From<Fields>>(frame: &[u8]) -> Result<Found<T>, ReplyError> {
    let listing = decode_listing(frame)?;
    let head: Option<serde_json::Map<String, serde_json::Value>> = serde_json::from_slice(frame).ok();
    let damaged = head.and_then(|head| Some(head.get(words::DAMAGED)?.as_str()?.to_owned()));
    Ok(Found { listing, damaged })
}

view! {
    /// A finished round.
    RoundRow {
        /// Id of the task.
        task: &str = |fields| fields.text(words::TASK_ID).unwrap_or_default();
        /// Number of the round.
        round: u64 = |fields| fields.count(words::ROUND).unwrap_or_default();
        /// The word for its outcome.
        outcome: &str = |fields| fields.text(words::OUTCOME).unwrap_or_default();
        /// Its tool, or the beginning of its command.
        work: &str = |fields| {
            fields.text(words::SHELL).or_else(|| fields.text(words::OPERATION)).unwrap_or_default()
        };
        /// The exit code, if there is one.
        exit_code: Option<i64> = |fields| fields.get(words::EXIT_CODE)?.as_i64();
        /// The agent that had it.
        agent: &str = |fields| fields.text(words::AGENT_ID).unwrap_or_default();
        /// The address of the machine of that agent, or an empty text for that of the controller.
        host: &str = |fields| fields.text(words::AGENT_IP).unwrap_or_default();
        /// Its job.
        job: &str = |fields| fields.text(words::JOB).unwrap_or_default();
        /// The id that its submitter chose.
        given_id: &str = |fields| fields.text(words::GIVEN_ID).unwrap_or_default();
        /// Whether no other round followed it.
        is_last: bool = |fields| fields.flag(words::IS_LAST);
        /// Moment of the submit of the task.
        submitted_at: Option<Wall> = |fields| fields.moment(words::SUBMIT_TIME);
        /// Start of its run.
        run_at: Option<Wall> = |fields| fields.moment(words::RUN_TIME);
        /// Moment of its end.
        ended_at: Option<Wall> = |fields| fields.moment(words::END_TIME);
        /// Seconds of its run.
        ran: Option<f64> = |fields| fields.get(words::RAN_SECONDS)?.as_f64();
        /// Seconds until an agent had it.
        waited: Option<f64> = |fields| fields.get(words::WAITED_SECONDS)?.as_f64();
        /// Why it did not succeed.
        reason: &str = |fields| fields.text(words::REASON).unwrap_or_default();
    }
}

view! {
    /// The rounds of a group.
    GroupRow {
        /// Number of rounds.
        count: u64 = |fields| fields.count(words::COUNT).unwrap_or_default();
        /// Number of rounds that succeeded.
        succeeded: u64 = |fields| fields.count(words::outcome(Outcome::Succeeded)).unwrap_or_default();
        /// Number of rounds that failed.
        failed: u64 = |fields| fields.count(words::outcome(Outcome::Failed)).unwrap_or_default();
        /// Number of rounds that took too long.
        timed_out: u64 = |fields| fields.count(words::outcome(Outcome::TimedOut)).unwrap_or_default();
        /// Number of rounds whose agents were lost.
        lost: u64 = |fields| fields.count(words::outcome(Outcome::Lost)).unwrap_or_default();
    }
}

impl GroupRow {
    /// The value of this key that the rounds share.
    #[must_use]
    pub fn key(&self, key: GroupKey) -> &str {
        self.0.text(key.word()).unwrap_or_default()
    }

    /// The 50th, 90th and 99th percentile of the run times, in seconds.
    #[must_use]
    pub fn ran(&self) -> [Option<f64>; 3] {
        RAN.map(|name| self.0.get(name)?.as_f64())
    }

    /// The same percentiles of the waiting times.
    #[must_use]
    pub fn waited(&self) -> [Option<f64>; 3] {
        WAITED.map(|name| self.0.get(name)?.as_f64())
    }
}

/// Writes an incident.
pub(in crate::wire) fn write_incident(incident: &Incident, writer: &mut ObjectWriter<'_>) {
    writer.text(words::INCIDENT, words::incident(incident.kind));
    writer.moment(words::TIME, incident.at);
    writer.text(words::REASON, &incident.text);
}

view! {
    /// An incident.
    IncidentRow {
        /// The word for its kind.
        kind: &str = |fields| fields.text(words::INCIDENT).unwrap_or_default();
        /// When it happened.
        at: Option<Wall> = |fields| fields.moment(words::TIME);
        /// One sentence.
        text: &str = |fields| fields.text(words::REASON).unwrap_or_default();
    }
}
