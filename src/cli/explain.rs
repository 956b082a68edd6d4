//! `llts explain`: the reason why a task waits, or ended as it did, and its log.

use clap::Args;

use super::Session;
use super::answers::{self, Shown};
use super::exit::Failure;
use super::graph;
use super::output::Output;
use super::selection::Selection;
use super::times;
use crate::protocol::client::Selector;
use crate::protocol::requests::explain::{Explanation, explain};
use crate::protocol::requests::query::query;

#[derive(Args, Debug)]
#[command(mut_group("selection", |group| group.required(true)))]
#[command(after_help = "\
A selection without ids means the newest task that matches. The id of a step graph in place of a task explains its steps: what each \
waits for, and of a step with tasks why the first of them has not finished.")]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    selection: Selection,
}

pub(super) fn run(session: &mut Session, args: &ExplainArgs) -> Result<u8, Failure> {
    let client = session.client()?;
    if let Some(graph) = args.selection.graph() {
        return graph::explain::run(session, &client, graph);
    }
    let shown = Shown { fields: Explanation::fields, show };
    let ask = |selector: &Selector| client.ask(&explain(client.ask(&query(selector, None))?.id()));
    answers::each(session, &client, &args.selection, ask, &shown)
}

fn show(out: &mut Output, explanation: &Explanation) {
    out.line(format_args!("{}  {}", explanation.task(), explanation.status()));
    out.line(times::readable(explanation.why()));
    out.line("");
    out.text(&times::readable(explanation.log()));
}
