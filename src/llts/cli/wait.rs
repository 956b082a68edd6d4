//! `llts wait`: wait until tasks have finished.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::change::about;
use super::get::note_files;
use super::selection::{Chosen, Scope, Selection};
use super::tails::note_tails;
use super::waiting::{Wait, left, why};
use super::{graph, job};
use api::wire::client::{Selector, TaskView};
use api::wire::requests::query::query;
use base::{GraphId, Mono, words};
use llts_client::{Client, ClientError, Waited};
use proc::clock;
use proc::lending::lend_slot;
use term::exit::Failure;
use term::output::{note, to_value};
use term::session::Session;
use term::table::Table;
use term::{exit, when};

#[derive(Args, Debug)]
#[command(mut_group("selection", |group| group.required(true)))]
#[command(after_help = "\
`all` means all that have not finished; a selection without ids means all that match, finished or not. \
The exit code is that of the worst task, 5 if a task is unknown, or 124 if the time limit has passed.")]
pub(super) struct WaitArgs {
    #[command(flatten)]
    selection: Selection,
    /// How long to wait for all of them together: seconds, or 10m, 1h30m [default: without limit]
    #[arg(long, value_name = "DURATION", value_parser = when::duration)]
    timeout: Option<Duration>,
}

/// The result of a wait for one task.
enum End {
    Finished(TaskView),
    Expired(TaskView),
    Unknown(String),
}

pub(super) fn run(session: &mut Session, args: &WaitArgs) -> Result<u8, Failure> {
    let mut waits = Wait::begin()?;
    lend_slot();
    let until = args.timeout.map(|timeout| clock::now().mono + timeout);
    if let Some(name) = args.selection.whole_job().filter(|_| !args.selection.is_of_failed()) {
        // A graph's tasks may be skipped without harm, and it may have none.
        let is_of_a_graph = name.parse::<GraphId>().is_ok();
        return if is_of_a_graph {
            graph::wait(session, &mut waits, name, until)
        } else {
            job::wait(session, &mut waits, name, until)
        };
    }
    if let Some(graph) = args.selection.only_task().filter(|id| id.parse::<GraphId>().is_ok()) {
        return graph::wait(session, &mut waits, graph, until);
    }
    let client = session.client()?;
    let scope = if args.selection.is_everything() { Scope::Unfinished } else { Scope::Every };
    let chosen = args.selection.resolve(&client, scope)?;
    let mut ends = Vec::new();
    for task in &chosen {
        let place = (ends.len(), chosen.len());
        match wait(&client, &mut waits, task, until, place)? {
            Some(end) => {
                if session.out.is_of_schema() {
                    session.out.value(&json!({ "task": value(&task.id, &end) }));
                }
                ends.push(end);
            }
            None => return Err(interrupted(&client, &chosen)),
        }
    }
    let mut worst = 0;
    let mut table = Table::pairs();
    let mut values = Vec::new();
    for (Chosen { id, .. }, end) in chosen.iter().zip(&ends) {
        let (code, sentence) = judge(id, end);
        if let End::Finished(task) = end
            && let Some(warning) = task.fields().text(words::WARNING)
        {
            note(&format!("{id}: {warning}"));
        }
        worst = worst.max(code);
        if let Some(sentence) = sentence {
            note(&sentence);
        }
        if let End::Finished(task) | End::Expired(task) = end {
            note_files(task);
            let exit = task.exit_code().map(|code| code.to_string()).unwrap_or_default();
            table.row([task.id(), task.outcome().unwrap_or(task.status()), &exit]);
        }
        values.push(value(id, end));
    }
    if session.out.is_json() {
        let tasks = ends.iter().filter_map(|end| if let End::Finished(task) = end { Some(task) } else { None });
        tasks.for_each(note_tails);
        // In the other form, each task was printed when it ended.
        if !session.out.is_of_schema() {
            session.out.value(&Value::Array(values));
        }
    } else {
        session.out.table(&table);
    }
    Ok(worst)
}

/// Waits for one task; `None` if the user leaves. `place` is the number of tasks before it, and the total.
fn wait(
    client: &Client,
    waits: &mut Wait,
    Chosen { id, state }: &Chosen,
    until: Option<Mono>,
    place: (usize, usize),
) -> Result<Option<End>, Failure> {
    if let Err(unknown) = state {
        return Ok(Some(End::Unknown(unknown.sentence.clone())));
    }
    let has_ended = |end: &End| !matches!(end, End::Expired(_));
    let ask =
        |until, interrupt: Option<BorrowedFd<'_>>| match client.wait_for_task(&Selector::task(id), until, interrupt) {
            Ok(Waited::Finished(task)) => Ok(Some(End::Finished(task))),
            Ok(Waited::Expired(task)) => Ok(Some(End::Expired(task))),
            Ok(Waited::Interrupted) => Ok(None),
            Err(ClientError::Reply(reply)) if reply.is_no_such_task() => Ok(Some(End::Unknown(reply.to_string()))),
            Err(error) => Err(error),
        };
    let hint = if place.1 == 1 { "Ctrl-C leaves; the task goes on" } else { "Ctrl-C leaves" };
    waits.wait(until, ask, has_ended, (hint, |_: &End| Ok(line(place, id, &why(client, id)?))))
}

/// One line about the awaited tasks.
fn line((before, all): (usize, usize), id: &str, why: &str) -> String {
    if all == 1 {
        return format!("waiting: {why}");
    }
    format!("waiting for {} of {all} tasks: {why}  [{id}]", all - before)
}

/// The failure of a wait that the user leaves, with the number of unfinished tasks.
fn interrupted(client: &Client, chosen: &[Chosen]) -> Failure {
    let is_open =
        |task: &&Chosen| client.ask(&query(&Selector::task(&task.id), None)).is_ok_and(|task| !task.is_finished());
    let open = chosen.iter().filter(is_open).count();
    match chosen.len() {
        1 => left("the task goes on"),
        all => left(&format!("{open} of {all} have not ended")),
    }
}

fn value(id: &str, end: &End) -> Value {
    match end {
        End::Finished(task) | End::Expired(task) => to_value(task.fields()),
        End::Unknown(why) => json!({ "task": id, "error": why }),
    }
}

fn judge(id: &str, end: &End) -> (u8, Option<String>) {
    match end {
        End::Finished(task) => exit::of_task(task),
        End::Expired(task) => (exit::TIMED_OUT, Some(format!("{id} is still {}", task.status()))),
        End::Unknown(sentence) => (exit::NO_SUCH_TASK, Some(about(id, sentence))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Fields, words};

    #[test]
    fn each_end_has_its_code() {
        let task = |code: i32| Fields::new().with(words::TASK_ID, "T").with(words::EXIT_CODE, code).into();
        assert_eq!(judge("T", &End::Finished(task(7))), (7, None));
        assert_eq!(judge("T", &End::Finished(task(-9))).0, 137);
        let running: TaskView = Fields::new().with(words::STATUS, "RUNNING").into();
        assert_eq!(judge("T", &End::Expired(running)), (124, Some("T is still RUNNING".into())));
        assert_eq!(judge("T", &End::Unknown("no task".into())).0, 5);
    }

    #[test]
    fn the_line_names_the_first_of_several() {
        let why = "2 tasks are before it, and all agents that could run them are busy";
        assert_eq!(line((0, 1), "T", why), format!("waiting: {why}"));
        let expected = format!("waiting for 3 of 5 tasks: {why}  [T]");
        assert_eq!(line((2, 5), "T", why), expected);
    }
}
