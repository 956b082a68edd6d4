//! `llts retry`: another round of tasks that have finished.

use clap::Args;

use super::Session;
use super::change::{self, Act};
use super::exit::Failure;
use super::selection::{Scope, Selection};
use crate::protocol::requests::retry::retry;
use crate::types::Outcome;

/// The unwanted ends that another round may repair. A task whose deadline has passed cannot be repaired.
const FAILED: &[Outcome] = &[Outcome::Failed, Outcome::TimedOut, Outcome::Lost];

#[derive(Args, Debug)]
#[command(mut_group("selection", |group| group.required(true)))]
#[command(after_help = "\
The task keeps its id and gets its next round, with all budgets reset; its earlier rounds stay in `llts query`. \
`all`, and a selection without ids, mean the tasks that have finished. `llts retry all` asks for confirmation, because it \
also repeats tasks that have succeeded.")]
pub(super) struct RetryArgs {
    #[command(flatten)]
    selection: Selection,
    /// All tasks that ended as FAILED, TIMED_OUT or LOST; a selection narrows this
    #[arg(long, group = "selection", conflicts_with_all = ["tasks", "outcome"])]
    failed: bool,
    /// Do not ask for confirmation before all tasks are run again
    #[arg(long, short)]
    yes: bool,
}

pub(super) fn run(session: &mut Session, args: &RetryArgs) -> Result<u8, Failure> {
    let selection = if args.failed { args.selection.clone().or_all() } else { args.selection.clone() };
    let client = session.client()?;
    let scope = if args.failed { Scope::Ended(FAILED) } else { Scope::Ended(&Outcome::ALL) };
    let mut tasks = selection.resolve(&client, scope)?;
    if selection.is_everything() && !args.failed && !tasks.is_empty() {
        change::confirm(&format!("run all {} finished tasks again", tasks.len()), args.yes)?;
    }
    // Oldest first, so that they wait in the order in which they were submitted; a list of ids keeps its own order.
    if !selection.has_ids() {
        tasks.sort_by(|one, other| one.id.cmp(&other.id));
    }
    change::each(session, &tasks, "retried", |id, _| client.ask(&retry(id)).map(|()| Act::Done))
}
