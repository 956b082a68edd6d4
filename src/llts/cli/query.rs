//! `llts query`: everything known about a task, with its rounds and its log.

use clap::Args;

use super::answers::{self, Shown};
use super::selection::Selection;
use api::wire::client::{Selector, TaskView, is_time};
use api::wire::requests::explain::explain;
use api::wire::requests::query::query;
use base::{Scalar, Wall, words};
use llts_client::{Client, ClientError};
use term::exit::Failure;
use term::output::Output;
use term::session::Session;
use term::table::Table;
use term::times;

#[derive(Args, Debug)]
#[command(mut_group("selection", |group| group.required(true)))]
#[command(after_help = "\
A selection without ids means the newest task that matches; `llts list` shows all of them. \
With --output wire, the fields of a round before the present one have its number and a colon in front of their names.")]
pub(super) struct QueryArgs {
    #[command(flatten)]
    selection: Selection,
}

/// A task, with its log if the output is for people.
struct Answer {
    task: TaskView,
    log: String,
}

pub(super) fn run(session: &mut Session, args: &QueryArgs) -> Result<u8, Failure> {
    let client = session.client()?;
    let with_log = !session.out.is_json();
    let ask = |selector: &Selector| ask(&client, selector, with_log);
    answers::each(session, &client, &args.selection, ask, &Shown { fields: |answer| answer.task.fields(), show })
}

fn ask(client: &Client, selector: &Selector, with_log: bool) -> Result<Answer, ClientError> {
    let task = client.ask(&query(selector, None))?;
    let log = if with_log { client.ask(&explain(task.id()))?.log().to_owned() } else { String::new() };
    Ok(Answer { task, log })
}

/// One line per field, a table of earlier rounds, then all texts of several lines.
fn show(out: &mut Output, answer: &Answer) {
    let (present, past) = answer.task.rounds();
    let mut table = Table::pairs();
    let mut long = Vec::new();
    for (name, value) in present.iter() {
        match value {
            Scalar::Text(text) if text.contains('\n') => long.push((name.to_owned(), text.clone())),
            _ => table.row([name, &shown(name, value)]),
        }
    }
    out.table(&table);
    if !past.is_empty() {
        out.line("");
        out.table(&rounds(past.iter().map(|(round, task)| (*round, task))));
    }
    for (round, task) in &past {
        let texts = [words::REPORT_LOG, words::STDOUT, words::STDERR];
        let texts = texts.into_iter().filter_map(|name| Some((name, task.fields().get(name)?.as_text()?)));
        let written = texts.filter(|(_, text)| !text.is_empty());
        long.extend(written.map(|(name, text)| (format!("{round}:{name}"), text.to_owned())));
    }
    long.push((words::LOG.to_owned(), times::readable(&answer.log)));
    for (name, text) in long {
        out.line(format_args!("\n{name}:"));
        out.text(&text);
    }
}

fn rounds<'a>(past: impl Iterator<Item = (u32, &'a TaskView)>) -> Table {
    let mut table = Table::new(&["ROUND", "ENDED AS", "EXIT", "RAN", "OVER AT", "AGENT", "REASON"]);
    for (round, task) in past {
        let exit = task.exit_code().map(|code| code.to_string()).unwrap_or_default();
        let ran = task.run_at().zip(task.ended_at()).map(|(start, end)| times::duration(end.since(start)));
        let over = task.round_ended_at().map(times::local).unwrap_or_default();
        let (agent, reason) = (task.agent().unwrap_or_default(), times::readable(task.reason().unwrap_or_default()));
        let ran = ran.unwrap_or_default();
        table.row([&round.to_string(), task.round_end(), &exit, &ran, &over, agent, &reason]);
    }
    table
}

fn shown(name: &str, value: &Scalar) -> String {
    let moment = value.as_f64().filter(|_| is_time(name)).and_then(Wall::from_unix_seconds);
    moment.map_or_else(|| value.to_string(), times::local)
}
