//! Forgotten tasks, read from the history of the service.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{ListArgs, UNASKED};
use crate::cli::rounds::pages;
use api::wire::client::{Listing, Selector};
use api::wire::requests::history;
use api::wire::requests::history::{RoundFilter, RoundRow, SortKey};
use api::wire::requests::rows::{RowsAsk, rows as live_rows};
use base::{Phase, Wall, words};
use llts_client::{Client, ClientError};
use proc::clock;
use term::connect::READING_MAX;
use term::exit::Failure;
use term::output::to_value;
use term::session::Session;

/// Rounds per request.
const PAGE: u64 = 1_000;

/// Rounds that are read to count the tasks, even if a page needs fewer.
const COUNTED: u64 = 500;

/// Maximum number of rounds that are read to fill a page: the service may still have the tasks of many of them.
const LOOKED_AT: u64 = 20_000;

/// Tasks that only the history has.
#[derive(Debug, Default)]
pub(super) struct Forgotten {
    /// The last round of each task.
    pub(super) rounds: Vec<RoundRow>,
    /// Number of tasks found.
    pub(super) count: u64,
    /// Whether the history may have more of them.
    pub(super) is_cut: bool,
}

/// Finds at most `len_max` tasks. `live` are ids of tasks that the service has.
pub(super) fn rounds(
    client: &Client,
    args: &ListArgs,
    live: &BTreeSet<String>,
    now: Wall,
    len_max: u64,
) -> Result<Forgotten, Failure> {
    let nothing = Ok(Forgotten::default());
    let Some(states) = args.past_states() else { return nothing };
    let (since, until) = args.past.period.bounds(now);
    let since = if args.past.period.is_given() { since } else { now.before(UNASKED) };
    let Some(mut filter) = args.selection.past(since, until, &states) else { return nothing };
    narrow(&mut filter, args);
    filter.is_last = true;
    let mut last: BTreeMap<String, RoundRow> = BTreeMap::new();
    let mut found: Vec<String> = Vec::new();
    let (mut offset, mut is_cut) = (0, true);
    while offset < LOOKED_AT && (found.len() as u64) < len_max {
        let ask = history::rounds(&filter, args.sort(), args.past.reverse, offset, PAGE.min(len_max * 4).max(COUNTED));
        let page = match client.ask_patiently(&ask, READING_MAX) {
            Ok(found) => found.listing,
            // A controller without a history has no older tasks. This is an error only if the user asked for a period.
            Err(ClientError::Reply(reply)) if reply.is_not_allowed() && !args.past.period.is_given() => return nothing,
            Err(error) => return Err(error.into()),
        };
        offset += page.rows.len() as u64;
        let is_end = page.rows.is_empty() || offset >= page.total;
        for round in page.rows {
            if live.contains(round.task()) {
                continue;
            }
            let id = round.task().to_owned();
            match last.get(&id) {
                Some(other) if other.round() >= round.round() => {}
                Some(_) => drop(last.insert(id, round)),
                None if is_known(client, &id)? => {}
                None => {
                    found.push(id.clone());
                    last.insert(id, round);
                }
            }
        }
        if is_end {
            is_cut = false;
            break;
        }
    }
    let count = found.len() as u64;
    found.truncate(usize::try_from(len_max).unwrap_or(usize::MAX));
    let rounds = found.iter().filter_map(|id| last.remove(id)).collect();
    Ok(Forgotten { rounds, count, is_cut })
}

/// The conditions that the history checks as the service does.
fn narrow(filter: &mut RoundFilter, args: &ListArgs) {
    (filter.tool, filter.agent) = (args.past.tool.clone(), args.past.agent.clone());
    filter.text.clone_from(&args.text);
}

/// Prints the finished rounds of a period, for programs.
pub(super) fn print(session: &mut Session, args: &ListArgs) -> Result<u8, Failure> {
    let (since, until) = args.past.period.bounds(clock::now().wall);
    let mut filter = args.selection.rounds(since, until, &args.state)?;
    narrow(&mut filter, args);
    let sort = args.past.sort.unwrap_or(SortKey::Ended);
    let ask = |offset, limit| history::rounds(&filter, sort, args.past.reverse, offset, limit);
    let Listing { total, rows } = pages(&session.client()?, args.offset, args.limit(None), |client, offset, limit| {
        client.ask_patiently(&ask(offset, limit), READING_MAX)
    })?;
    let rounds: Vec<Value> = rows.iter().map(|round| to_value(round.fields())).collect();
    session.out.value(&json!({ "total": total, "rounds": rounds }));
    Ok(0)
}

/// A forgotten task for programs: the fields of its last round in the history.
pub(super) fn value(round: &RoundRow) -> Value {
    let mut value = to_value(round.fields());
    value[words::STATUS] = json!(words::phase(Phase::Finished));
    value
}

/// Whether the service has the task itself: it did not match, or is on another page.
fn is_known(client: &Client, id: &str) -> Result<bool, ClientError> {
    Ok(client.ask(&live_rows(&Selector::task(id), &RowsAsk::default(), 0, 1))?.total > 0)
}
