//! `llts query`: all that is known of one task.

use clap::Args;

use super::Session;
use super::exit::{self, Failure};
use super::output::Output;
use super::parameter::{self, Parameter};
use super::table::Table;
use super::times;
use crate::protocol::client::{Selector, TaskView, is_time};
use crate::types::{Fields, Scalar, Wall};

#[derive(Args, Debug)]
#[command(after_help = "If several tasks match, the newest is shown.")]
pub(super) struct QueryArgs {
    /// The task
    #[arg(value_name = "TASK", required_unless_present_any = ["given_id", "filter"])]
    id: Option<String>,
    /// The task with this id of your own
    #[arg(long, value_name = "ID")]
    given_id: Option<String>,
    /// The task that has this field with this value; may be repeated. As for submit: key=value or key:=JSON
    #[arg(long = "where", id = "filter", value_name = "KEY=VALUE", value_parser = parameter::parse)]
    filter: Vec<Parameter>,
}

pub(super) fn run(session: &mut Session, args: &QueryArgs) -> Result<u8, Failure> {
    let mut selector = args.id.as_deref().map_or_else(Selector::all, Selector::task);
    if let Some(id) = &args.given_id {
        selector = selector.and_given_id(id);
    }
    let selector = matching(selector, &args.filter)?;
    let task = session.client()?.query(&selector).map_err(|error| {
        let failure = Failure::from(error);
        match &args.id {
            Some(id) if failure.exit == exit::NO_SUCH_TASK => {
                Failure { sentence: format!("{id}: {}", failure.sentence), ..failure }
            }
            _ => failure,
        }
    })?;
    if session.out.is_json() {
        session.out.fields(task.fields());
    } else {
        show(&mut session.out, &task);
    }
    Ok(0)
}

/// Narrows a selection by fields.
pub(super) fn matching(selector: Selector, filter: &[Parameter]) -> Result<Selector, Failure> {
    let fields: Fields = parameter::filter(filter)?;
    Ok(fields.iter().fold(selector, |selector, (name, value)| selector.and(name, value.clone())))
}

/// A line per field; texts of several lines come after all others.
fn show(out: &mut Output, task: &TaskView) {
    let mut table = Table::pairs();
    let mut long = Vec::new();
    for (name, value) in task.fields().iter() {
        match value {
            Scalar::Text(text) if text.contains('\n') => long.push((name, text)),
            _ => table.row([name, &shown(name, value)]),
        }
    }
    out.table(&table);
    for (name, text) in long {
        out.line(format_args!("\n{name}:"));
        out.text(text);
    }
}

fn shown(name: &str, value: &Scalar) -> String {
    let moment = value.as_f64().filter(|_| is_time(name)).and_then(Wall::from_unix_seconds);
    moment.map_or_else(|| value.to_string(), times::local)
}
