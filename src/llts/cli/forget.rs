//! `llts forget`: remove finished tasks before their time.

use clap::Args;

use super::change::{self, Change, Step};
use super::selection::{Scope, Selection};
use api::wire::client::ReplyError;
use api::wire::requests::forget::forget;
use base::Outcome;
use proc::clock;
use term::exit::Failure;
use term::session::Session;
use term::when;
use term::when::Past;

#[derive(Args, Debug)]
#[command(after_help = format!("\
A task is forgotten with its family: it can no longer be queried, retried or waited for, its outputs cannot be read, and a submit \
with its key runs again. The history keeps its rows. `all`, and a selection without ids, mean the tasks that have finished; \
`llts forget all` asks for confirmation, and so does `llts forget --failed` on a terminal. {}", when::PAST_HELP))]
pub(super) struct ForgetArgs {
    #[command(flatten)]
    selection: Selection,
    /// Only tasks that had finished before this time
    #[arg(long, value_name = "TIME", value_parser = when::past, help_heading = "Selection")]
    finished_before: Option<Past>,
    /// Do not ask for confirmation before all finished tasks are forgotten
    #[arg(long, short)]
    yes: bool,
}

pub(super) fn run(session: &mut Session, args: &ForgetArgs) -> Result<u8, Failure> {
    if args.finished_before.is_none() && !args.selection.is_given() {
        let why = "name the tasks to forget: ids, --job NAME, --finished-before TIME, or all; see `llts forget --help`";
        return Err(Failure::usage(why));
    }
    let client = session.client()?;
    let failed = args.selection.is_of_failed();
    let selection = if failed { args.selection.clone().or_all() } else { args.selection.clone() };
    let mut tasks = selection.resolve(&client, Scope::Ended(&Outcome::ALL))?;
    if let Some(before) = args.finished_before.map(|past| past.wall(clock::now().wall)) {
        tasks.retain(|task| task.state.as_ref().is_ok_and(|state| state.finished_at.is_some_and(|at| at < before)));
    }
    if args.finished_before.is_none() {
        change::confirm_all(&selection, tasks.len(), |tasks| format!("forget all {tasks}"), args.yes)?;
    }
    // A task may be gone already: a forgotten task takes others of its family along.
    let change = Change {
        done: "forgot",
        step: &|id, _| Step::Ask(forget(id).for_its_warning()),
        is_done: ReplyError::is_no_such_task,
    };
    change::each(session, &client, &tasks, &change)
}
