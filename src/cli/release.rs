//! `llts release`: let tasks start that were held.

use clap::Args;

use super::Session;
use super::change::{self, Act, Needless};
use super::exit::Failure;
use super::selection::{Scope, Selection};
use crate::protocol::requests::hold::hold;

const NOT_HELD: Needless = Needless { one: "was not held", many: "were not held" };

#[derive(Args, Debug)]
#[command(mut_group("selection", |group| group.required(true)))]
#[command(after_help = "`all`, and a selection without ids, mean the tasks that have not finished.")]
pub(super) struct ReleaseArgs {
    #[command(flatten)]
    selection: Selection,
}

pub(super) fn run(session: &mut Session, args: &ReleaseArgs) -> Result<u8, Failure> {
    let client = session.client()?;
    let tasks = args.selection.resolve(&client, Scope::Unfinished)?;
    change::each(session, &tasks, "released", |id, task| {
        if task.held { client.ask(&hold(id, false)).map(|()| Act::Done) } else { Ok(Act::Needless(NOT_HELD)) }
    })
}
