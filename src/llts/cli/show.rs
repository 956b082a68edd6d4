//! `llts show`: the work of a task, its end or its wait, the reason, and commands to type next.

mod screen;

use clap::Args;

use super::answers::{self, Shown};
use super::change::about;
use super::selection::{Chosen, Scope, Selection};
use api::wire::client::{Selector, TaskView};
use api::wire::requests::agents::AgentRow;
use api::wire::requests::explain::{Explanation, explain};
use api::wire::requests::history::{RoundFilter, RoundRow, SortKey};
use api::wire::requests::job::JobAnswer;
use api::wire::requests::logs::{OutputView, output};
use api::wire::requests::query::query;
use api::wire::requests::rows::{RowView, RowsAsk, rows};
use api::wire::requests::{history, job};
use base::{Stream, Wall, words};
use llts_client::{Client, ClientError};
use term::connect::READING_MAX;
use term::exit;
use term::exit::Failure;
use term::output::note;
use term::session::Session;
use term::style::{Look, Screen};

#[derive(Args, Debug)]
#[command(mut_group("selection", |group| group.required(true)))]
#[command(after_help = "\
A selection without ids means the newest task that matches. A task that the service has forgotten is shown as its history has it. \
`llts query` shows every field.")]
pub(super) struct ShowArgs {
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
    /// Its outputs up to now, if it runs.
    written: Option<Written>,
}

/// The outputs of a running task.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    stdout: u64,
    stderr: u64,
    /// When the last byte was written, by the clock of the agent.
    last: Option<Wall>,
}

pub(super) fn run(session: &mut Session, args: &ShowArgs) -> Result<u8, Failure> {
    let client = session.client()?;
    if session.out.is_json() {
        let ask = |selector: &Selector| with_reason(&client, &client.ask(&query(selector, None))?);
        let shown = Shown { fields: TaskView::fields, show: |_, _| {} };
        return answers::each(session, &client, &args.selection, ask, &shown);
    }
    show(session, &client, &args.selection, false)
}

/// The fields of a task, with the reason of its state.
fn with_reason(client: &Client, task: &TaskView) -> Result<TaskView, ClientError> {
    let explanation = client.ask(&explain(task.id()))?;
    let mut fields = task.fields().clone();
    explanation.fields().iter().for_each(|(name, value)| fields.set(name, value.clone()));
    Ok(fields.into())
}

pub(super) fn show(
    session: &mut Session,
    client: &Client,
    selection: &Selection,
    reason_first: bool,
) -> Result<u8, Failure> {
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
            Ok(model) => {
                session.out.screen(&screen::of_task(&model, reason_first, look));
                if let Some(warning) = model.task.fields().text(words::WARNING) {
                    note(&about(&id, warning));
                }
            }
            Err(failure) => match forgotten(client, &id)? {
                rounds if rounds.is_empty() => {
                    note(&about(&id, &failure.sentence));
                    worst = worst.max(failure.exit);
                }
                rounds => session.out.screen(&screen::of_rounds(&id, &rounds, proc::clock::now().wall, look)),
            },
        }
    }
    Ok(worst)
}

/// The screen of a task, with the reason first if requested.
pub(super) fn screen(client: &Client, id: &str, reason_first: bool, look: Look) -> Result<Screen, Failure> {
    Ok(screen::of_task(&model(client, id)?, reason_first, look))
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
    Ok(client.agents()?.into_iter().find(|agent| agent.id() == name))
}

/// The outputs written up to now; empty if the agent does not answer.
fn written(client: &Client, id: &str) -> Written {
    let parts = [Stream::Stdout, Stream::Stderr]
        .map(|stream| client.ask(&output(&Selector::task(id), stream, 0, None).at_most(1)).ok());
    let [stdout, stderr] = parts.each_ref().map(|part| part.as_ref().and_then(OutputView::total).unwrap_or_default());
    let last = parts.iter().flatten().filter_map(OutputView::written_at).max();
    Written { stdout, stderr, last }
}

/// The rounds of a forgotten task, oldest first.
fn forgotten(client: &Client, id: &str) -> Result<Vec<RoundRow>, Failure> {
    let Ok(task) = id.parse() else { return Ok(Vec::new()) };
    let filter = RoundFilter { task: Some(task), ..RoundFilter::between(Wall::default(), Wall::from_micros(u64::MAX)) };
    match client.ask_patiently(&history::rounds(&filter, SortKey::Ended, true, 0, 100), READING_MAX) {
        Ok(found) => Ok(found.listing.rows),
        Err(ClientError::Reply(reply)) if reply.is_not_allowed() => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}
