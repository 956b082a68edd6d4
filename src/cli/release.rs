//! `llts release`: let tasks start that were held.

use clap::Args;

use super::Session;
use super::change;
use super::exit::Failure;
use super::selection::{Scope, Selection};

#[derive(Args, Debug)]
#[command(after_help = "`all`, and a selection without ids, mean the tasks that have not finished.")]
pub(super) struct ReleaseArgs {
    #[command(flatten)]
    selection: Selection,
}

pub(super) fn run(session: &mut Session, args: &ReleaseArgs) -> Result<u8, Failure> {
    let client = session.client()?;
    let tasks = args.selection.resolve(&client, Scope::Unfinished)?;
    change::each(session, &tasks, "released", |id, task| {
        if task.held { client.hold(id, false).map(|()| None) } else { Ok(Some("was not held")) }
    })
}
