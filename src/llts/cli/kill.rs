//! `llts kill`: ask tasks to end.

use clap::Args;

use super::caller::{caller, command_line};
use super::change::{self, Change, Needless, Step};
use super::job;
use super::selection::{Scope, Selection, State};
use api::wire::requests::job::JobOrder;
use api::wire::requests::kill::kill;
use term::exit::Failure;
use term::session::Session;

const FINISHED: Needless = Needless { one: "had finished", many: "had finished" };

#[derive(Args, Debug)]
#[command(mut_group("selection", |group| group.required(true)))]
#[command(after_help = "\
`all`, and a selection without ids, mean the tasks that have not finished. `llts kill all` asks for confirmation. \
Returns when the controller has recorded it; `llts wait TASK` waits for the end.")]
pub(super) struct KillArgs {
    #[command(flatten)]
    selection: Selection,
    /// Do not ask for confirmation before all tasks are ended
    #[arg(long, short)]
    yes: bool,
}

pub(super) fn run(session: &mut Session, args: &KillArgs) -> Result<u8, Failure> {
    if let Some(name) = args.selection.whole_job().filter(|_| !args.selection.is_of_failed()) {
        let reason = caller(&command_line());
        return job::change(session, name, &JobOrder::Kill(Some(reason.into())), "killed");
    }
    let client = session.client()?;
    let tasks = args.selection.resolve(&client, Scope::Unfinished)?;
    if args.selection.is_everything() && !tasks.is_empty() {
        change::confirm(&format!("end all {} that have not finished", base::counted(tasks.len(), "task")), args.yes)?;
    }
    let reason = caller(&command_line());
    let step = |id: &str, task: State| match task.finished {
        true => Step::Needless(FINISHED),
        false => Step::Ask(kill(id, &reason).for_its_warning()),
    };
    change::each(session, &client, &tasks, &Change { done: "killed", step: &step, is_done: |_| false })
}
