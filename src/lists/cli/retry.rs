//! `llts spool retry`: runs tasks again that have failed for good.

use std::path::Path;

use clap::Args;
use serde_json::json;

use crate::shell::orders;
use base::lists::ListTaskId;
use term::exit::Failure;
use term::session::Session;

#[derive(Args, Debug)]
#[command(after_help = "\
Each task gets one more attempt: a duplicate in new/, whose id is printed; the task itself
goes to failed_archive/. If its until has passed, the duplicate has as much time as the task
had at first.")]
pub(crate) struct RetryArgs {
    /// Ids of tasks in failed_time/ or failed_count/
    #[arg(value_name = "ID", value_parser = super::id, required_unless_present = "failed", conflicts_with = "failed")]
    ids: Vec<ListTaskId>,
    /// All of them
    #[arg(long)]
    failed: bool,
}

pub(super) fn run(session: &mut Session, dir: Option<&Path>, args: &RetryArgs) -> Result<u8, Failure> {
    let folders = super::folders(session, dir)?;
    let ids = if args.failed { orders::failed(&folders)? } else { args.ids.clone() };
    let mut again = Vec::new();
    for id in ids {
        let id = orders::retry(&folders, id)?;
        if !session.out.is_json() {
            session.out.line(id);
        }
        again.push(id.to_string());
    }
    if session.out.is_json() {
        session.out.value(&json!({ "ids": again }));
    }
    Ok(0)
}
