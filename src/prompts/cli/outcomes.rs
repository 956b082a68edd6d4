//! `llts prompt failed`, `results` and `retry`: the finished prompts of a folder.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::files::create::TASKS;
use crate::files::outcomes;
use crate::files::outcomes::Outcome;
use crate::master::engine::FileName;
use term::exit::Failure;
use term::output::note;
use term::session::Session;
use term::style::Look;
use term::table::Table;

#[derive(Args, Debug)]
#[command(after_help = "\
The results of a failed run stay in .tasks/failed/. A failed prompt whose results are with
its worker, or that was no valid prompt, is shown without exit code.")]
pub(crate) struct FailedArgs {
    /// The folder with .tasks/ [default: prompt.ROOT_DIR]
    #[arg(long, value_name = "DIR")]
    root_dir: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct ResultsArgs {
    /// The folder with .tasks/ [default: prompt.ROOT_DIR]
    #[arg(long, value_name = "DIR")]
    root_dir: Option<PathBuf>,
    /// Write one JSON object per line, with the whole outputs
    #[arg(long)]
    jsonl: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "\
A prompt waits again in .tasks/pending/, and a running master hands it out. Its results stay
in .tasks/failed/. Exits with 1 if a prompt cannot be moved.")]
pub(crate) struct RetryArgs {
    /// The names of failed prompts
    #[arg(required_unless_present = "failed")]
    names: Vec<String>,
    /// Try all failed prompts again
    #[arg(long, conflicts_with = "names")]
    failed: bool,
    /// The folder with .tasks/ [default: prompt.ROOT_DIR]
    #[arg(long, value_name = "DIR")]
    root_dir: Option<PathBuf>,
}

pub(crate) fn failed(session: &mut Session, args: &FailedArgs) -> Result<u8, Failure> {
    let mut found = outcomes(session, args.root_dir.as_deref())?;
    found.retain(|outcome| outcome.is_failed);
    show(session, &found);
    Ok(0)
}

pub(crate) fn results(session: &mut Session, args: &ResultsArgs) -> Result<u8, Failure> {
    let found = outcomes(session, args.root_dir.as_deref())?;
    if !args.jsonl {
        show(session, &found);
        return Ok(0);
    }
    for outcome in &found {
        let mut line = value(outcome);
        for ending in ["out", "err"] {
            line[ending] = outcome.output(ending).map_err(Failure::failed)?.into();
        }
        session.out.line(line);
        if session.out.is_broken() {
            break;
        }
    }
    Ok(0)
}

pub(crate) fn retry(session: &mut Session, args: &RetryArgs) -> Result<u8, Failure> {
    let root = super::root(session, args.root_dir.as_deref());
    let names: Vec<FileName> = if args.failed {
        let found = outcomes(session, args.root_dir.as_deref())?;
        found.into_iter().filter(|outcome| outcome.is_failed).map(|outcome| outcome.name).collect()
    } else {
        args.names.iter().map(|name| FileName::from(name.as_str())).collect()
    };
    let mut retried = Vec::new();
    let mut problems = Vec::new();
    for name in names {
        let is_name = !name.as_os_str().is_empty() && Path::new(name.as_os_str()).components().count() == 1;
        if !is_name {
            problems.push(format!("{name} is no name of a prompt in .tasks/failed/"));
            continue;
        }
        match outcomes::retry(&root, &name) {
            Ok(()) => retried.push(name),
            Err(error) => problems.push(format!("{name} cannot be moved from failed/ to pending/: {error}")),
        }
    }
    if session.out.is_json() {
        session.out.value(&json!({ "retried": retried.iter().map(ToString::to_string).collect::<Vec<_>>() }));
    } else {
        retried.iter().for_each(|name| session.out.line(name));
    }
    match &problems[..] {
        [] => Ok(0),
        [rest @ .., last] => {
            rest.iter().for_each(|problem| note(problem));
            Err(Failure::failed(last.clone()))
        }
    }
}

fn outcomes(session: &Session, root_dir: Option<&Path>) -> Result<Vec<Outcome>, Failure> {
    let root = super::root(session, root_dir);
    outcomes::outcomes(&root)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", root.join(TASKS).display())))
}

fn value(outcome: &Outcome) -> Value {
    let run = outcome.run.clone().unwrap_or_default();
    json!({
        "name": outcome.name.to_string(),
        "outcome": if outcome.is_failed { "failed" } else { "done" },
        "exit_code": run["exit_code"],
        "signal": run["signal"],
        "start": run["start"],
        "end": run["end"],
        "seconds": run["seconds"],
        "worker": run["worker"],
        "timed_out": outcome.is_timed_out(),
        "cost_usd": run["cost_usd"],
        "branch": run["branch"],
        "workdir": run["workdir"],
        "last_line": outcome.last_line(),
    })
}

fn show(session: &mut Session, outcomes: &[Outcome]) {
    if session.out.is_json() {
        return session.out.value(&Value::Array(outcomes.iter().map(value).collect()));
    }
    if outcomes.is_empty() {
        return note("no prompt has finished like that");
    }
    let mut table = Table::new(&["PROMPT", "END", "TIME", "WORKER", "LAST LINE"]);
    for outcome in outcomes {
        let end = match (outcome.number("exit_code"), outcome.number("signal")) {
            _ if outcome.is_timed_out() => "time-out".to_owned(),
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => String::new(),
        };
        let time = outcome.number("seconds").map(|seconds| format!("{seconds:.1} s")).unwrap_or_default();
        let (name, worker) = (outcome.name.to_string(), outcome.text("worker").unwrap_or_default());
        table.row([name.as_str(), &end, &time, worker, &outcome.last_line().unwrap_or_default()]);
    }
    let text = table.show(Look::plain(session.out.columns()));
    session.out.line(text.trim_end());
}
