//! `llts list`: tasks, newest first; or, for a time, the finished rounds of the history.

use clap::Args;
use serde_json::{Value, json};

use super::Session;
use super::exit::Failure;
use super::output::to_value;
use super::rounds::{self, RoundsArgs};
use super::selection::Selection;
use super::table::Table;
use super::{times, when};
use crate::protocol::client::{Listing, TaskView};
use crate::shell::clock;
use crate::types::Wall;

#[derive(Args, Debug)]
#[command(after_help = format!("\
Without tasks or a selection, all tasks are listed. With --since, --until, --sort, --tool or --agent it lists finished rounds of \
the history, also of tasks that the service has forgotten (HISTORY_KEEP_DAYS). {}", when::PAST_HELP))]
pub(super) struct ListArgs {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    past: RoundsArgs,
    /// Maximum number of tasks
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u64,
    /// Number of tasks to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
}

pub(super) fn run(session: &mut Session, args: &ListArgs) -> Result<u8, Failure> {
    if args.past.is_given() {
        return rounds::list(session, &args.past, &args.selection, args.offset, args.limit);
    }
    let Listing { total, rows } = args.selection.list(&session.client()?, args.offset, args.limit)?;
    if session.out.is_json() {
        let tasks: Vec<Value> = rows.iter().map(|task| to_value(task.fields())).collect();
        session.out.value(&json!({ "total": total, "tasks": tasks }));
        return Ok(0);
    }
    let now = clock::now().wall;
    let head = ["TASK", "TOOL", "STATUS", "OUTCOME", "EXIT", "ROUND", "RAN", "SUBMITTED", "AGENT", "REASON"];
    let mut table = Table::new(&head);
    for task in &rows {
        let exit = task.exit_code().map(|code| code.to_string()).unwrap_or_default();
        let submitted = task.submitted_at().map(times::local).unwrap_or_default();
        let (outcome, agent) = (task.outcome().unwrap_or_default(), task.agent().unwrap_or_default());
        let (round, ran, reason) = (task.round().to_string(), ran(task, now), reason(task));
        table.row([task.id(), &task.work(), task.status(), outcome, &exit, &round, &ran, &submitted, agent, &reason]);
    }
    session.out.table(&table);
    session.out.next_page("tasks", args.offset, rows.len(), total);
    Ok(0)
}

/// The run time of its tool, up to now if it still runs.
fn ran(task: &TaskView, now: Wall) -> String {
    let Some(start) = task.run_at() else { return String::new() };
    let end = task.ended_at().or_else(|| (!task.is_finished()).then_some(now));
    end.map(|end| times::duration(end.since(start))).unwrap_or_default()
}

/// The reason of its end, or of its delay as far as the record shows it; `explain` gives the complete reason.
fn reason(task: &TaskView) -> String {
    match (task.reason(), task.held_at(), task.not_before()) {
        (Some(reason), _, _) => times::readable(reason),
        (None, Some(at), _) => format!("held since {}", times::local(at)),
        (None, None, Some(at)) => format!("not before {}", times::local(at)),
        (None, None, None) => String::new(),
    }
}
