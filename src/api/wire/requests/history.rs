//! HISTORY/QUERY, HISTORY/SUMMARY and HISTORY/INCIDENTS: finished rounds of the last days, their numbers and times, and the
//! incidents of the service.
//!
//! The answers come from the files of the history, outside of the loop of the controller (`controller::history::rules`).

mod answer;

use super::{Ask, Kind, Listing, Reader, Request, words};
use crate::wire::narrowing::finds;
use crate::wire::page::Page;
use crate::wire::typed::{field, moment, truth};
use base::code::{Code, Refusal};
use base::{IncidentKind, RoundOutcome, TaskId, Wall};

pub use answer::{Found, GroupRow, GroupSummary, HistoryAnswer, HistoryPage, IncidentRow, RoundRow};
use answer::{decode, has_command};
pub(in crate::wire) use answer::{hide_commands, write, write_incident};

/// A page of finished rounds.
pub const HISTORY_QUERY: Kind = Kind::question("HISTORY/QUERY", |mut reader| {
    let page = reader.page()?;
    let sort = reader.sort()?.unwrap_or(SortKey::Ended);
    let is_reversed = truth(&reader.fields, words::REVERSE)?.unwrap_or_default();
    reader.question(What::Rounds { sort, is_reversed, page })
});

/// Numbers and times of the finished rounds, by group.
pub const HISTORY_SUMMARY: Kind = Kind::question("HISTORY/SUMMARY", |mut reader| {
    let page = reader.page()?;
    let by = reader.groups()?;
    let clock_ahead = reader.clock_ahead()?;
    reader.question(What::Summary { by, clock_ahead, page })
});

/// A page of incidents.
pub const HISTORY_INCIDENTS: Kind = Kind::question("HISTORY/INCIDENTS", |mut reader| {
    let page = reader.page()?;
    let known = IncidentKind::ALL.map(words::incident).join(", ");
    let kind = field(&reader.fields, words::INCIDENT, format_args!("one of {known}"), |value| {
        words::incident_of(value.as_text()?)
    })?;
    reader.question(What::Incidents { kind, page })
});

/// A question about the history.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The rounds or incidents that it is about.
    pub filter: RoundFilter,
    /// The wanted form of the answer.
    pub what: What,
}

/// The wanted form of the answer.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// The rounds themselves.
    Rounds {
        /// The rounds with the largest value of this key come first.
        sort: SortKey,
        /// The smallest come first instead.
        is_reversed: bool,
        /// The part of the list.
        page: Page,
    },
    /// Their numbers and times.
    Summary {
        /// The keys. The rounds of a group agree in all of them.
        by: Vec<GroupKey>,
        /// How far the local time of the reader is ahead of UTC, in seconds. Days begin at local midnight.
        clock_ahead: i32,
        /// The part of the list.
        page: Page,
    },
    /// Incidents.
    Incidents {
        /// Only those of this kind.
        kind: Option<IncidentKind>,
        /// The part of the list.
        page: Page,
    },
}

/// A selection of rounds. Every field that is set must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundFilter {
    /// Rounds that ended at this moment or later.
    pub since: Wall,
    /// Rounds that ended before this moment.
    pub until: Wall,
    /// The allowed outcomes; empty for all of them.
    pub outcomes: Vec<RoundOutcome>,
    /// The operation.
    pub tool: Option<String>,
    /// The job.
    pub job: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// The id that the submitter chose.
    pub given_id: Option<String>,
    /// The task.
    pub task: Option<TaskId>,
    /// The letters at the end of its id.
    pub letters: Option<[u8; TaskId::SUFFIX_LEN]>,
    /// A text, in lower case, that the given id, the work, or the line about its end must contain.
    pub text: Option<String>,
    /// Only rounds that no other one was to follow.
    pub is_last: bool,
    /// Whether the work and the end of commands are searched, too: a sender without the right to see them must not be able to
    /// guess them.
    pub sees_commands: bool,
}

impl RoundFilter {
    /// The rounds that ended within a time.
    #[must_use]
    pub const fn between(since: Wall, until: Wall) -> Self {
        Self {
            since,
            until,
            outcomes: Vec::new(),
            tool: None,
            job: None,
            agent: None,
            given_id: None,
            task: None,
            letters: None,
            text: None,
            is_last: false,
            sees_commands: false,
        }
    }

    /// Whether a round with these fields contains the text.
    #[must_use]
    pub fn finds(&self, tool: &str, command: &str, given_id: &str, line: &str) -> bool {
        let Some(text) = &self.text else { return true };
        let work = if command.is_empty() { tool } else { command };
        finds(text, self.sees_commands || !has_command(tool), given_id, [work, line])
    }
}

/// The order of rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortKey {
    /// By their end.
    Ended,
    /// By their run time.
    Ran,
    /// By their waiting time.
    Waited,
    /// By the submit of the task.
    #[default]
    Submitted,
}

impl SortKey {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ended, Self::Ran, Self::Waited, Self::Submitted];

    /// The value of `__SORT__`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Ran => "ran",
            Self::Waited => "waited",
            Self::Submitted => "submitted",
        }
    }
}

/// A property that the rounds of a group share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKey {
    /// The day of the end.
    Day,
    /// The hour of the end.
    Hour,
    /// The operation.
    Tool,
    /// The outcome.
    Outcome,
    /// The job.
    Job,
    /// The agent.
    Agent,
    /// The machine of the agent.
    Host,
}

impl GroupKey {
    /// All of them.
    pub const ALL: [Self; 7] = [Self::Day, Self::Hour, Self::Tool, Self::Outcome, Self::Job, Self::Agent, Self::Host];

    /// Its name in `__GROUP__`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Hour => "hour",
            Self::Tool => "tool",
            Self::Outcome => "outcome",
            Self::Job => "job",
            Self::Agent => "agent",
            Self::Host => "host",
        }
    }
}

/// A day, in seconds. No time zone differs from UTC by more than fourteen hours.
const CLOCK_AHEAD_MAX: i64 = 86_400;

impl Reader<'_> {
    /// The requested order, if there is one.
    pub(super) fn sort(&self) -> Result<Option<SortKey>, Refusal> {
        let known = SortKey::ALL.map(SortKey::word).join(", ");
        field(&self.fields, words::SORT, format_args!("one of {known}"), |value| {
            SortKey::ALL.into_iter().find(|key| value.as_text() == Some(key.word()))
        })
    }

    fn groups(&self) -> Result<Vec<GroupKey>, Refusal> {
        let known = GroupKey::ALL.map(GroupKey::word).join(", ");
        let of = |word: &str| GroupKey::ALL.into_iter().find(|key| key.word() == word.trim());
        let wanted = format_args!("names out of {known}, separated by commas");
        let found = field(&self.fields, words::GROUP, wanted, |value| value.as_text()?.split(',').map(of).collect())?;
        Ok(found.unwrap_or_else(|| vec![GroupKey::Day, GroupKey::Tool]))
    }

    fn clock_ahead(&self) -> Result<i32, Refusal> {
        let wanted = format_args!("seconds from -{CLOCK_AHEAD_MAX} to {CLOCK_AHEAD_MAX}");
        let found = field(&self.fields, words::CLOCK_AHEAD, wanted, |value| {
            let seconds = value.as_i64().filter(|seconds| seconds.abs() <= CLOCK_AHEAD_MAX)?;
            i32::try_from(seconds).ok()
        })?;
        Ok(found.unwrap_or_default())
    }

    fn question(self, what: What) -> Result<Request, Refusal> {
        let known = RoundOutcome::ALL.map(words::round_outcome).join(", ");
        let of = |word: &str| words::round_outcome_of(word.trim());
        let wanted = format_args!("words out of {known}, separated by commas");
        let outcomes =
            field(&self.fields, words::OUTCOME, wanted, |value| value.as_text()?.split(',').map(of).collect())?;
        let text = |name| field(&self.fields, name, "a text", |value| value.as_text().map(str::to_owned));
        let task = if self.fields.get(words::TASK_ID).is_some() { Some(self.task_id()?) } else { None };
        let filter = RoundFilter {
            since: moment(&self.fields, words::SINCE)?.unwrap_or_default(),
            until: moment(&self.fields, words::UNTIL)?.unwrap_or(Wall::from_micros(u64::MAX)),
            outcomes: outcomes.unwrap_or_default(),
            tool: text(words::OPERATION)?,
            job: text(words::JOB)?,
            agent: text(words::AGENT_ID)?,
            given_id: text(words::GIVEN_ID)?,
            task,
            letters: self.letters()?,
            text: field(&self.fields, words::TEXT, "a text", |value| value.as_text().map(str::to_lowercase))?,
            is_last: truth(&self.fields, words::IS_LAST)?.unwrap_or_default(),
            sees_commands: false,
        };
        Ok(Request::History(Box::new(Question { filter, what })))
    }
}

/// The refusal by a controller that keeps no history.
#[must_use]
pub fn is_off() -> Refusal {
    Refusal::new(
        Code::NotAllowed,
        "this controller keeps no history; set HISTORY_KEEP_DAYS to the number of days to keep",
    )
}

/// Asks for finished rounds, the largest by `sort` first.
#[must_use]
pub fn rounds(filter: &RoundFilter, sort: SortKey, is_reversed: bool, offset: u64, limit: u64) -> Ask<Found<RoundRow>> {
    let ask = filtered(Ask::new(HISTORY_QUERY.word, decode), filter, offset, limit);
    ask.with(words::SORT, sort.word()).with(words::REVERSE, is_reversed)
}

/// Asks for the numbers and times of finished rounds. `clock_ahead`: the seconds by which the local time of the reader is ahead
/// of UTC.
#[must_use]
pub fn summary(
    filter: &RoundFilter,
    by: &[GroupKey],
    clock_ahead: i32,
    offset: u64,
    limit: u64,
) -> Ask<Found<GroupRow>> {
    let names: Vec<_> = by.iter().map(|key| key.word()).collect();
    let ask = filtered(Ask::new(HISTORY_SUMMARY.word, decode), filter, offset, limit);
    ask.with(words::GROUP, names.join(",")).with(words::CLOCK_AHEAD, clock_ahead)
}

/// Asks for incidents, newest first.
#[must_use]
pub fn incidents(filter: &RoundFilter, kind: Option<IncidentKind>, offset: u64, limit: u64) -> Ask<Found<IncidentRow>> {
    let ask = filtered(Ask::new(HISTORY_INCIDENTS.word, decode), filter, offset, limit);
    kind.into_iter().fold(ask, |ask, kind| ask.with(words::INCIDENT, words::incident(kind)))
}

fn filtered<A>(ask: Ask<A>, filter: &RoundFilter, offset: u64, limit: u64) -> Ask<A> {
    let mut ask = ask.with(words::OFFSET, offset).with(words::LIMIT, limit);
    ask = ask.with(words::SINCE, filter.since.unix_seconds());
    if filter.until < Wall::from_micros(u64::MAX) {
        ask = ask.with(words::UNTIL, filter.until.unix_seconds());
    }
    if !filter.outcomes.is_empty() {
        let outcomes: Vec<_> = filter.outcomes.iter().map(|outcome| words::round_outcome(*outcome)).collect();
        ask = ask.with(words::OUTCOME, outcomes.join(","));
    }
    let texts = [
        (words::OPERATION, &filter.tool),
        (words::JOB, &filter.job),
        (words::AGENT_ID, &filter.agent),
        (words::GIVEN_ID, &filter.given_id),
        (words::TEXT, &filter.text),
    ];
    for (name, text) in texts {
        ask = text.iter().fold(ask, |ask, text| ask.with(name, text.as_str()));
    }
    if filter.is_last {
        ask = ask.with(words::IS_LAST, true);
    }
    let letters = filter.letters.as_ref().and_then(|letters| std::str::from_utf8(letters).ok());
    ask = letters.into_iter().fold(ask, |ask, letters| ask.with(words::LETTERS, letters));
    filter.task.iter().fold(ask, |ask, task| ask.with(words::TASK_ID, task.to_string()))
}
