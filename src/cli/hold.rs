//! `llts hold`: keep tasks from starting until they are released.

use clap::Args;

use super::Session;
use super::change::{self, Act, Needless};
use super::exit::Failure;
use super::selection::{Scope, Selection};
use crate::protocol::requests::hold::hold;

const HELD: Needless = Needless { one: "was held already", many: "were held already" };

#[derive(Args, Debug)]
#[command(mut_group("selection", |group| group.required(true)))]
#[command(after_help = "\
A task that runs goes on; its next round, if there is one, is held. `llts release` lets them go. \
`all`, and a selection without ids, mean the tasks that have not finished.")]
pub(super) struct HoldArgs {
    #[command(flatten)]
    selection: Selection,
}

pub(super) fn run(session: &mut Session, args: &HoldArgs) -> Result<u8, Failure> {
    let client = session.client()?;
    let tasks = args.selection.resolve(&client, Scope::Unfinished)?;
    change::each(session, &tasks, "held", |id, task| {
        if task.held { Ok(Act::Needless(HELD)) } else { client.ask(&hold(id, true)).map(|()| Act::Done) }
    })
}
