//! `llts explain`: why a task waits, or ended as it did. For people it is the screen of `llts show`, which begins with the reason.

use clap::Args;

use super::answers::{self, Shown};
use super::selection::Selection;
use super::{Session, graph, show};
use api::wire::client::Selector;
use api::wire::requests::explain::{Explanation, explain};
use api::wire::requests::query::query;
use term::exit::Failure;
use term::output::Output;
use term::{hints, times};

#[derive(Args, Debug)]
#[command(mut_group("selection", |group| group.required(true)))]
#[command(after_help = "\
The screen of `llts show`, which begins with the reason, and the log of the task; on a pipe its state, the reason and the log. A selection without ids means the newest task that \
matches. The id of a step graph in place of a task explains its steps: what each waits for, and of a step with tasks why the first of \
them has not finished.")]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    selection: Selection,
}

pub(super) fn run(session: &mut Session, args: &ExplainArgs) -> Result<u8, Failure> {
    let client = session.client()?;
    if let Some(graph) = args.selection.graph() {
        return graph::explain::run(session, &client, graph);
    }
    if session.out.is_json() || !session.out.look().is_terminal {
        let shown = Shown { fields: Explanation::fields, show: plainly };
        let ask = |selector: &Selector| client.ask(&explain(client.ask(&query(selector, None))?.id()));
        return answers::each(session, &client, &args.selection, ask, &shown);
    }
    show::show(session, &client, &args.selection, true)
}

/// Plain text for programs: the state, the reason and the log.
fn plainly(out: &mut Output, explanation: &Explanation) {
    out.line(format_args!("{}  {}", explanation.task(), explanation.status()));
    out.line(hints::typed(&times::readable(explanation.why())));
    out.line("");
    out.text(&times::readable(explanation.log()));
}
