//! `llts hold` and `llts release`, the old names of `pause` and `resume` for tasks: keep tasks from starting, and let them start again.

use clap::Args;

use super::change::{self, Change, Needless, Step};
use super::job;
use super::selection::{Scope, Selection, State};
use api::wire::requests::hold::hold;
use api::wire::requests::job::JobOrder;
use term::exit::Failure;
use term::session::Session;

const HELD: Needless = Needless { one: "was paused already", many: "were paused already" };
const NOT_HELD: Needless = Needless { one: "was not paused", many: "were not paused" };

#[derive(Args, Debug)]
#[command(mut_group("selection", |group| group.required(true)))]
#[command(after_help = "\
A running task continues; its next round, if there is one, is held. `llts resume` lets held tasks start. \
`all`, and a selection without ids, mean the tasks that have not finished.")]
pub(super) struct HoldArgs {
    #[command(flatten)]
    selection: Selection,
}

#[derive(Args, Debug)]
#[command(mut_group("selection", |group| group.required(true)))]
#[command(after_help = "`all`, and a selection without ids, mean the tasks that have not finished.")]
pub(super) struct ReleaseArgs {
    #[command(flatten)]
    selection: Selection,
}

pub(super) fn run(session: &mut Session, args: &HoldArgs) -> Result<u8, Failure> {
    set_held(session, &args.selection, true)
}

pub(super) fn release(session: &mut Session, args: &ReleaseArgs) -> Result<u8, Failure> {
    set_held(session, &args.selection, false)
}

/// Holds the selected tasks, or lets them start.
pub(super) fn set_held(session: &mut Session, selection: &Selection, shall_hold: bool) -> Result<u8, Failure> {
    let (done, needless) = if shall_hold { ("paused", HELD) } else { ("resumed", NOT_HELD) };
    if let Some(name) = selection.whole_job().filter(|_| !selection.is_of_failed()) {
        return job::change(session, name, &JobOrder::Hold(shall_hold), done);
    }
    let client = session.client()?;
    let tasks = selection.resolve(&client, Scope::Unfinished)?;
    let step = |id: &str, task: State| match task.held == shall_hold {
        true => Step::Needless(needless),
        false => Step::Ask(hold(id, shall_hold).for_its_warning()),
    };
    change::each(session, &client, &tasks, &Change { done, step: &step, is_done: |_| false })
}
