//! `llts history`: how many rounds ended in which way, and how long they took.

use clap::Args;
use clap::builder::PossibleValue;
use serde_json::{Value, json};

use super::rounds::{Period, pages};
use super::selection::FAILED;
use api::wire::client::Listing;
use api::wire::requests::history::{GroupKey, GroupRow, RoundFilter, summary};
use base::{RoundOutcome, Wall, words};
use proc::clock;
use term::connect::READING_MAX;
use term::exit::Failure;
use term::output::to_value;
use term::session::Session;
use term::states::{ended, one_of, value};
use term::table::{Column, Give, Omit, Table};
use term::{times, when};

#[derive(Args, Debug)]
#[command(after_help = format!("\
A round is one run of a task, or the wait of a task that ended without one. Counts are exact; p50, p90 and p99 of the run times and \
of the times until an agent got the task are within five percent. Days are those of this machine's time zone. {}", when::PAST_HELP))]
pub(super) struct HistoryArgs {
    #[command(flatten)]
    period: Period,
    /// Only rounds that ended like this; several words with commas between them
    #[arg(long, value_name = "OUTCOME", value_delimiter = ',', ignore_case = true, value_parser = outcome())]
    outcome: Vec<RoundOutcome>,
    /// Only rounds that ended as FAILED, TIMED_OUT or LOST
    #[arg(long, conflicts_with = "outcome")]
    failed: bool,
    /// Only those of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Only those of this job
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Only those of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// One row for each different combination of these; several words with commas between them
    #[arg(long, value_name = "KEY", value_delimiter = ',', default_value = "day,tool", value_parser = key())]
    group: Vec<GroupKey>,
    /// Maximum number of rows
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: u64,
    /// Number of rows to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
}

fn outcome() -> impl clap::builder::TypedValueParser<Value = RoundOutcome> {
    let value = |end| match end {
        RoundOutcome::Ended(outcome) => value(outcome),
        other => PossibleValue::new(words::round_outcome(other)),
    };
    one_of(RoundOutcome::ALL.map(value), |word| {
        ended(word).map(RoundOutcome::Ended).or_else(|| words::round_outcome_of(&word.to_ascii_uppercase()))
    })
}

fn key() -> impl clap::builder::TypedValueParser<Value = GroupKey> {
    one_of(GroupKey::ALL.map(GroupKey::word), |word| GroupKey::ALL.into_iter().find(|key| key.word() == word))
}

pub(super) fn run(session: &mut Session, args: &HistoryArgs) -> Result<u8, Failure> {
    let now = clock::now().wall;
    let (since, until) = args.period.bounds(now);
    let failed = FAILED.iter().copied().map(RoundOutcome::Ended);
    let filter = RoundFilter {
        outcomes: if args.failed { failed.collect() } else { args.outcome.clone() },
        tool: args.tool.clone(),
        job: args.job.clone(),
        agent: args.agent.clone(),
        ..RoundFilter::between(since, until)
    };
    let clock_ahead = when::clock_ahead(now);
    let ask = |offset, limit| summary(&filter, &args.group, clock_ahead, offset, limit);
    let Listing { total, rows } = pages(&session.client()?, args.offset, args.limit, |client, offset, limit| {
        client.ask_patiently(&ask(offset, limit), READING_MAX)
    })?;
    if session.out.is_json() {
        let groups: Vec<Value> = rows.iter().map(|group| to_value(group.fields())).collect();
        session.out.value(&json!({ "total": total, "groups": groups }));
        return Ok(0);
    }
    session.out.table(&table(&args.group, &rows));
    session.out.next_page("groups", args.offset, rows.len(), total);
    Ok(0)
}

/// The table of groups with these keys.
pub(super) fn table(keys: &[GroupKey], groups: &[GroupRow]) -> Table {
    let mut table = Table::of(keys.iter().map(|key| heading(*key)).chain(NUMBERS));
    for group in groups {
        let keys = keys.iter().map(|key| shown(*key, group.key(*key)));
        table.row(keys.chain(cells(group)));
    }
    table
}

/// The numbers of a group. On a narrow terminal, the least important ones are dropped first.
const NUMBERS: [Column; 11] = [
    Column::new("ROUNDS").number(),
    Column::new("OK").number(),
    Column::new("FAILED").number(),
    Column::new("TIMED_OUT").number().omitted_if(Omit::Zero).rank(1),
    Column::new("LOST").number().omitted_if(Omit::Zero).rank(1),
    Column::new("OTHER").number().omitted_if(Omit::Zero).rank(2),
    Column::new("P50").number(),
    Column::new("P90").number().rank(3),
    Column::new("P99").number().rank(4),
    Column::new("WAITED_P50").number().rank(5),
    Column::new("WAITED_P99").number().rank(6),
];

const fn heading(key: GroupKey) -> Column {
    match key {
        GroupKey::Day => Column::new("DAY"),
        GroupKey::Hour => Column::new("HOUR"),
        GroupKey::Tool => Column::new("TOOL").gives(Give::Middle(8)),
        GroupKey::Outcome => Column::new("OUTCOME"),
        GroupKey::Job => Column::new("JOB").gives(Give::Middle(8)),
        GroupKey::Agent => Column::new("AGENT").gives(Give::Middle(8)),
        GroupKey::Host => Column::new("HOST").gives(Give::Middle(8)),
    }
}

fn shown(key: GroupKey, value: &str) -> String {
    let at =
        || value.parse::<u64>().ok().map(|seconds| times::local(Wall::from_micros(seconds.saturating_mul(1_000_000))));
    match key {
        GroupKey::Hour => at().unwrap_or_default(),
        GroupKey::Host if value.is_empty() => "here".to_owned(),
        GroupKey::Tool => words::people(value).to_owned(),
        GroupKey::Host | GroupKey::Day | GroupKey::Outcome | GroupKey::Job | GroupKey::Agent => value.to_owned(),
    }
}

fn cells(group: &GroupRow) -> impl Iterator<Item = String> {
    let known = [group.succeeded(), group.failed(), group.timed_out(), group.lost()];
    let other = group.count().saturating_sub(known.iter().sum());
    let counts = std::iter::once(group.count()).chain(known).chain([other]).map(|count| count.to_string());
    let [waited_p50, _, waited_p99] = group.waited();
    let times = group.ran().into_iter().chain([waited_p50, waited_p99]);
    counts.chain(times.map(|time| time.map(times::seconds).unwrap_or_default()))
}
