//! `llts retry`: start another round of finished tasks.

use clap::Args;

use super::change::{self, Change, Step};
use super::job;
use super::selection::{Scope, Selection};
use api::wire::requests::job::JobOrder;
use api::wire::requests::retry::retry;
use base::Outcome;
use term::exit::Failure;
use term::session::Session;

#[derive(Args, Debug)]
#[command(mut_group("selection", |group| group.required(true)))]
#[command(after_help = "\
The task keeps its id and gets its next round, with all budgets reset; its earlier rounds stay in `llts query`. \
`all`, and a selection without ids, mean the tasks that have finished. `llts retry all` asks for confirmation, because it \
also repeats tasks that have succeeded; on a terminal `llts retry --failed` asks as well, because it repeats those of all jobs. \
`--job NAME` repeats the failed tasks of a job, and those that were skipped because of them.")]
pub(super) struct RetryArgs {
    #[command(flatten)]
    selection: Selection,
    /// Do not ask for confirmation before all tasks are run again
    #[arg(long, short)]
    yes: bool,
}

pub(super) fn run(session: &mut Session, args: &RetryArgs) -> Result<u8, Failure> {
    if let Some(name) = args.selection.whole_job() {
        return job::change(session, name, &JobOrder::Retry, "retried");
    }
    let failed = args.selection.is_of_failed();
    let selection = if failed { args.selection.clone().or_all() } else { args.selection.clone() };
    let client = session.client()?;
    let scope = Scope::Ended(&Outcome::ALL);
    let mut tasks = selection.resolve(&client, scope)?;
    change::confirm_all(&selection, tasks.len(), |tasks| format!("run all {tasks} again"), args.yes)?;
    // Oldest first, so that tasks wait in the order of their submits. A list of ids keeps its own order.
    if !selection.has_ids() {
        tasks.sort_by(|one, other| one.id.cmp(&other.id));
    }
    let change = Change { done: "retried", step: &|id, _| Step::Ask(retry(id).for_its_warning()), is_done: |_| false };
    change::each(session, &client, &tasks, &change)
}
