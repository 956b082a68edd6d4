//! `llts status`, and `llts` alone on a terminal: the whole service on one screen, from one answer.

pub(super) mod screen;

use clap::Args;
use serde_json::{Map, Value, json};

use api::wire::requests::status::{Problem, QueueView, Status, status};
use api::wire::version;
use base::Wall;
use term::exit;
use term::exit::Failure;
use term::hints;
use term::output::to_value;
use term::session::Session;
use term::style::{FAINT, PLAIN, Screen};

#[derive(Args, Debug, Default)]
#[command(after_help = "\
WHY n WAIT counts the waiting tasks by what they wait for. FAILED shows the last failures, those that are alike as one. The screen is no taller than the terminal. The rate and \
p50, the median run time, are those of the last minute. `llts stats`, `llts agents` and `llts info` have the parts.")]
pub(super) struct StatusArgs {
    /// For `llts` without a command
    #[arg(long, hide = true)]
    alone: bool,
}

pub(super) fn run(session: &mut Session, args: &StatusArgs) -> Result<u8, Failure> {
    let answer = session.client().and_then(|client| Ok(client.ask(&status())?));
    let first = match answer {
        Ok(answer) => answer,
        Err(failure) if args.alone && failure.exit == exit::NO_CONTROLLER && !session.out.is_json() => {
            without_service(session);
            return Ok(0);
        }
        Err(failure) => return Err(failure),
    };
    if session.out.is_json() {
        session.out.value(&value(&first));
        return Ok(0);
    }
    let screen = screen::of(&first, session.out.look(), lines(session));
    session.out.screen(&screen);
    Ok(0)
}

/// The number of lines above the prompt, or above the cursor of a redrawn screen.
fn lines(session: &Session) -> Option<usize> {
    session.out.rows().map(|rows| rows.saturating_sub(1))
}

/// Says which command to type if no service runs.
fn without_service(session: &mut Session) {
    let mut screen = Screen::new(session.out.look());
    for (command, what) in [
        ("llts run -- echo hi", "runs a command"),
        ("seq 1000 | llts map -- echo {}", "runs a command for each line"),
        ("llts up", "starts a service here; `llts --help` shows all commands"),
    ] {
        let command = format!("  {command}");
        screen.line([(PLAIN, format!("{:34}", hints::typed(&command)).as_str()), (FAINT, what)]);
    }
    session.out.screen(&screen);
}

fn value(status: &Status) -> Value {
    let states: Map<String, Value> =
        status.states.by_state().map(|(state, count)| (state.word().replace(' ', "_"), count.into())).collect();
    let agents = status.agents;
    let rows = |rows: &[api::wire::requests::rows::RowView]| -> Vec<Value> {
        rows.iter().map(|row| to_value(row.fields())).collect()
    };
    let worst = status.problems.first().map(|problem| problem.text.as_str());
    json!({
        "version": version::program(),
        "health": status.warning.as_deref().or(worst).unwrap_or("good"),
        "uptime_seconds": status.now.since(status.started_at).as_secs_f64(),
        "queue": status.queue.as_ref().map(queue),
        "problems": status.problems.iter().map(problem).collect::<Vec<_>>(),
        "tasks": states,
        "agents": { "total": agents.total, "free": agents.free, "busy": agents.busy, "lost": agents.lost },
        "tasks_per_second": status.rate,
        "run_p50_seconds": status.run_p50.map(|time| time.as_secs_f64()),
        "jobs": status.jobs.iter().map(|job| to_value(job.fields())).collect::<Vec<_>>(),
        "running": rows(&status.running),
        "waiting": status.waiting.iter().map(|(why, count)| json!({ "why": why, "count": count })).collect::<Vec<_>>(),
        "failed": rows(&status.failed),
    })
}

fn queue(queue: &QueueView) -> Value {
    let QueueView { place, since, standbys, survives } = queue;
    json!({ "at": place, "since_time": since.unix_seconds(), "standbys": standbys, "survives": survives })
}

fn problem(problem: &Problem) -> Value {
    let Problem { text, hint, since, task } = problem;
    json!({ "what": text, "hint": hint, "since_time": since.map(Wall::unix_seconds), "task_id": task })
}
