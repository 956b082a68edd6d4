//! `llts list`: tasks, newest first.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::Session;
use super::exit::Failure;
use super::output::to_value;
use super::parameter::{self, Parameter};
use super::query::matching;
use super::table::Table;
use super::times;
use crate::client::{Client, ClientError};
use crate::protocol::client::{Listing, Selector, TaskView};
use crate::shell::clock;
use crate::types::{Phase, Wall};

#[derive(Args, Debug)]
pub(super) struct ListArgs {
    /// Only those in this phase
    #[arg(long, value_enum, ignore_case = true)]
    status: Option<Status>,
    /// Only those that have this field with this value; may be repeated. As for submit: key=value or key:=JSON
    #[arg(long = "where", id = "filter", value_name = "KEY=VALUE", value_parser = parameter::parse)]
    filter: Vec<Parameter>,
    /// How many at the most
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u64,
    /// How many to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Status {
    Waiting,
    Dispatched,
    Preparing,
    Running,
    Ended,
    Finished,
}

impl From<Status> for Phase {
    fn from(status: Status) -> Self {
        match status {
            Status::Waiting => Self::Waiting,
            Status::Dispatched => Self::Dispatched,
            Status::Preparing => Self::Preparing,
            Status::Running => Self::Running,
            Status::Ended => Self::Ended,
            Status::Finished => Self::Finished,
        }
    }
}

pub(super) fn run(session: &mut Session, args: &ListArgs) -> Result<u8, Failure> {
    let mut selector = Selector::all();
    if let Some(status) = args.status {
        selector = selector.and_phase(status.into());
    }
    let selector = matching(selector, &args.filter)?;
    let Listing { total, rows } = collect(&session.client()?, &selector, args.offset, args.limit)?;
    if session.out.is_json() {
        let tasks: Vec<Value> = rows.iter().map(|task| to_value(task.fields())).collect();
        session.out.value(&json!({ "total": total, "tasks": tasks }));
        return Ok(0);
    }
    let now = clock::now().wall;
    let mut table = Table::new(&["TASK", "TOOL", "STATUS", "OUTCOME", "EXIT", "RAN", "SUBMITTED", "AGENT"]);
    for task in &rows {
        let exit = task.exit_code().map(|code| code.to_string()).unwrap_or_default();
        let submitted = task.submitted_at().map(times::local).unwrap_or_default();
        let (outcome, agent) = (task.outcome().unwrap_or_default(), task.agent().unwrap_or_default());
        table.row([task.id(), task.tool(), task.status(), outcome, &exit, &ran(task, now), &submitted, agent]);
    }
    session.out.table(&table);
    let end = args.offset.saturating_add(rows.len() as u64);
    if end < total {
        session.out.line(format_args!("{} of {total} tasks; --offset {end} shows the next", rows.len()));
    }
    Ok(0)
}

/// Asks page by page: the controller ends a page where it becomes too long.
fn collect(client: &Client, selector: &Selector, offset: u64, limit: u64) -> Result<Listing<TaskView>, ClientError> {
    let mut listing = client.tasks(selector, offset, limit)?;
    loop {
        let count = listing.rows.len() as u64;
        let next = offset.saturating_add(count);
        if count >= limit || next >= listing.total {
            return Ok(listing);
        }
        let page = client.tasks(selector, next, limit - count)?;
        if page.rows.is_empty() {
            return Ok(listing);
        }
        listing.total = page.total;
        listing.rows.extend(page.rows);
    }
}

/// How long its tool ran, or has been running.
fn ran(task: &TaskView, now: Wall) -> String {
    let Some(start) = task.run_at() else { return String::new() };
    let end = task.ended_at().or_else(|| (!task.is_finished()).then_some(now));
    end.map(|end| times::duration(end.since(start))).unwrap_or_default()
}
