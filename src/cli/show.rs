//! `llts show` and `llts explain`: what a task does, how it ended or what it waits for, why, and what to type next.

mod screen;

use clap::Args;

use super::Session;
use super::answers::{self, Shown};
use super::change::about;
use super::exit::{self, Failure};
use super::graph;
use super::output::{Output, note};
use super::rounds::READING_MAX;
use super::selection::{Chosen, Scope, Selection};
use super::times;
use crate::client::{Client, ClientError};
use crate::protocol::client::{Selector, TaskView};
use crate::protocol::requests::agents::AgentRow;
use crate::protocol::requests::explain::{Explanation, explain};
use crate::protocol::requests::history::{self, RoundFilter, RoundRow, SortKey};
use crate::protocol::requests::job::{self, JobAnswer};
use crate::protocol::requests::logs::output;
use crate::protocol::requests::query::query;
use crate::protocol::requests::rows::{RowView, RowsAsk, rows};
use crate::types::{Stream, Wall};

#[derive(Args, Debug)]
#[command(mut_group("selection", |group| group.required(true)))]
#[command(after_help = "\
A selection without ids means the newest task that matches. A task that the service has forgotten is shown as its history has it. \
`llts query` shows every field.")]
pub(super) struct ShowArgs {
    #[command(flatten)]
    selection: Selection,
}

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

/// Everything about one task.
#[derive(Debug)]
struct Model {
    /// The task with its fields.
    task: TaskView,
    row: RowView,
    explanation: Explanation,
    /// The moment of the answers, by the clock of the controller.
    now: Wall,
    job: Option<JobAnswer>,
    /// Its agent, if it runs.
    agent: Option<AgentRow>,
    /// Bytes of stdout and stderr up to now, if it runs.
    written: Option<[u64; 2]>,
}

pub(super) fn run(session: &mut Session, args: &ShowArgs) -> Result<u8, Failure> {
    let client = session.client()?;
    if session.out.is_json() {
        let ask = |selector: &Selector| with_reason(&client, client.ask(&query(selector, None))?);
        let shown = Shown { fields: TaskView::fields, show: |_, _| {} };
        return answers::each(session, &client, &args.selection, ask, &shown);
    }
    show(session, &client, &args.selection, false)
}

pub(super) fn explain_task(session: &mut Session, args: &ExplainArgs) -> Result<u8, Failure> {
    let client = session.client()?;
    if let Some(graph) = args.selection.graph() {
        return graph::explain::run(session, &client, graph);
    }
    if session.out.is_json() || !session.out.look().is_terminal {
        let shown = Shown { fields: Explanation::fields, show: plainly };
        let ask = |selector: &Selector| client.ask(&explain(client.ask(&query(selector, None))?.id()));
        return answers::each(session, &client, &args.selection, ask, &shown);
    }
    show(session, &client, &args.selection, true)
}

/// For programs that read text: the state, the reason and the log.
fn plainly(out: &mut Output, explanation: &Explanation) {
    out.line(format_args!("{}  {}", explanation.task(), explanation.status()));
    out.line(times::readable(explanation.why()));
    out.line("");
    out.text(&times::readable(explanation.log()));
}

/// The fields of a task, with the reason of its state.
fn with_reason(client: &Client, task: TaskView) -> Result<TaskView, ClientError> {
    let explanation = client.ask(&explain(task.id()))?;
    let mut fields = task.fields().clone();
    explanation.fields().iter().for_each(|(name, value)| fields.set(name, value.clone()));
    Ok(fields.into())
}

fn show(session: &mut Session, client: &Client, selection: &Selection, reason_first: bool) -> Result<u8, Failure> {
    let chosen = if selection.has_words() {
        selection.resolve(client, Scope::Every)?
    } else {
        vec![Chosen::from(&client.ask(&query(&selection.newest(client)?, None))?)]
    };
    let mut worst = 0;
    for (number, Chosen { id, state }) in chosen.into_iter().enumerate() {
        if number > 0 {
            session.out.line("");
        }
        let look = session.out.look();
        match state.and_then(|_| model(client, &id)) {
            Ok(model) => session.out.screen(&screen::of_task(&model, reason_first, look)),
            Err(failure) => match forgotten(client, &id)? {
                rounds if rounds.is_empty() => {
                    note(&about(&id, &failure.sentence));
                    worst = worst.max(failure.exit);
                }
                rounds => session.out.screen(&screen::of_rounds(&id, &rounds, crate::shell::clock::now().wall, look)),
            },
        }
    }
    Ok(worst)
}

fn model(client: &Client, id: &str) -> Result<Model, Failure> {
    let selector = Selector::task(id);
    let found = client.ask(&rows(&selector, &RowsAsk::default(), 0, 1))?;
    let gone = || Failure::new(exit::NO_SUCH_TASK, "no such task");
    let row = found.rows.into_iter().next().ok_or_else(gone)?;
    let task = client.ask(&query(&selector, None))?;
    let explanation = client.ask(&explain(id))?;
    let job = Some(row.job()).filter(|name| !name.is_empty());
    let job = job.and_then(|name| client.ask(&job::query(name, None)).ok());
    let is_running = row.run_at().is_some() && row.state().is_open();
    let agent = if is_running { agent(client, row.agent())? } else { None };
    let written = is_running.then(|| written(client, id));
    Ok(Model { task, row, explanation, now: found.now, job, agent, written })
}

fn agent(client: &Client, name: &str) -> Result<Option<AgentRow>, ClientError> {
    Ok(super::agents::collect(client)?.into_iter().find(|agent| agent.id() == name))
}

/// Bytes of stdout and stderr up to now; none where the agent does not answer.
fn written(client: &Client, id: &str) -> [u64; 2] {
    [Stream::Stdout, Stream::Stderr].map(|stream| {
        let part = client.ask(&output(&Selector::task(id), stream, 0, None).at_most(1));
        part.ok().and_then(|part| part.total()).unwrap_or_default()
    })
}

/// The rounds of a task that the service has forgotten, oldest first.
fn forgotten(client: &Client, id: &str) -> Result<Vec<RoundRow>, Failure> {
    let Ok(task) = id.parse() else { return Ok(Vec::new()) };
    let filter = RoundFilter { task: Some(task), ..RoundFilter::between(Wall::default(), Wall::from_micros(u64::MAX)) };
    match client.ask_patiently(&history::rounds(&filter, SortKey::Ended, true, 0, 100), READING_MAX) {
        Ok(found) => Ok(found.listing.rows),
        Err(ClientError::Reply(reply)) if reply.is_not_allowed() => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}
