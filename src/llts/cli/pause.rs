//! `llts pause` and `llts resume`: keep tasks, jobs, agents, a gate or the whole service from starting anything, and let them start
//! again.

use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::drain::{self, DrainArgs};
use super::gate::{self, CloseArgs};
use super::hold;
use super::selection::Selection;
use api::wire::requests::{down, stats};
use base::{Label, Wall};
use term::exit::Failure;
use term::session::Session;
use term::when::Moment;
use term::{hints, times, when};

#[derive(Args, Debug)]
#[command(after_help = "\
What runs goes on; nothing else starts. A paused task waits, and so does the next round of a running one. `all`, and a selection \
without ids, mean the tasks that have not finished; tasks of a job that are submitted later are not among them. A paused agent gets \
no more tasks, also after a restart of the agent and of the controller. While the service is paused, no task starts on any agent, \
also after a restart. `llts resume` takes the same words.")]
pub(super) struct PauseArgs {
    #[command(flatten)]
    what: What,
    /// With --agent: also agents that have not come yet
    #[arg(long)]
    ahead: bool,
    /// With --gate or --service: the time for which it is paused [default: until `llts resume`]
    #[arg(long = "for", id = "span", value_name = "DURATION", value_parser = when::duration, conflicts_with = "until")]
    span: Option<Duration>,
    /// With --gate or --service: the moment until which it is paused
    #[arg(long, value_name = "MOMENT", value_parser = when::moment)]
    until: Option<Moment>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Takes the words of `llts pause`. --service also ends the pause of a `llts down --wait` that was interrupted; agents that are paused \
by their names stay so.")]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    what: What,
}

/// The things that can rest.
#[derive(Args, Debug)]
struct What {
    #[command(flatten)]
    selection: Selection,
    /// These agents
    #[arg(long, value_name = "AGENT", num_args = 1.., conflicts_with = "selection")]
    agent: Vec<String>,
    /// All agents of a machine: its address, its name, or the first part of the names of its agents
    #[arg(long, value_name = "NAME", conflicts_with_all = ["selection", "agent"])]
    host: Option<String>,
    /// This gate, and so all tasks that name it
    #[arg(long, value_name = "GATE", conflicts_with_all = ["selection", "agent", "host"])]
    gate: Option<String>,
    /// All tasks, those to come among them
    #[arg(long, conflicts_with_all = ["selection", "agent", "host", "gate"])]
    service: bool,
}

/// The things that the user has named.
enum Resting {
    Tasks,
    Agents,
    Gate(String),
    Service,
}

impl What {
    fn resting(&self, verb: &str) -> Result<Resting, Failure> {
        if let Some(gate) = &self.gate {
            return Ok(Resting::Gate(gate.clone()));
        }
        if self.service {
            return Ok(Resting::Service);
        }
        if self.host.is_some() || !self.agent.is_empty() {
            return Ok(Resting::Agents);
        }
        if self.selection.is_given() {
            return Ok(Resting::Tasks);
        }
        Err(Failure::usage(format!(
            "{verb} what? llts {verb} TASK, llts {verb} --job NAME, --agent AGENT, --gate GATE, or --service"
        )))
    }

    /// The named agents, as arguments of `drain`.
    fn agents(&self, undo: bool, ahead: bool) -> DrainArgs {
        DrainArgs { agents: self.agent.clone(), host: self.host.clone(), ahead, undo }
    }
}

pub(super) fn run(session: &mut Session, args: &PauseArgs) -> Result<u8, Failure> {
    let resting = args.what.resting("pause")?;
    // clap does not enforce a required option that conflicts with a third one.
    if args.ahead && args.what.agent.is_empty() {
        return Err(Failure::usage("--ahead goes with --agent only: it is for agents that have not come yet"));
    }
    if (args.span.is_some() || args.until.is_some()) && matches!(resting, Resting::Tasks | Resting::Agents) {
        let end = if args.span.is_some() { "--for" } else { "--until" };
        return Err(Failure::usage(format!(
            "{end} goes with --gate or --service only; tasks and agents are paused until `llts resume`"
        )));
    }
    match resting {
        Resting::Tasks => hold::set_held(session, &args.what.selection, true),
        Resting::Agents => drain::run(session, &args.what.agents(false, args.ahead)),
        Resting::Gate(name) => gate::close(session, &CloseArgs::new(name, args.span, args.until)),
        Resting::Service => {
            gate::set_closed(session, &CloseArgs::new(Label::SERVICE.to_owned(), args.span, args.until))?;
            tell(session)
        }
    }
}

pub(super) fn resume(session: &mut Session, args: &ResumeArgs) -> Result<u8, Failure> {
    match args.what.resting("resume")? {
        Resting::Tasks => hold::set_held(session, &args.what.selection, false),
        Resting::Agents => drain::run(session, &args.what.agents(true, false)),
        Resting::Gate(name) => gate::open(session, &name),
        Resting::Service => resume_service(session),
    }
}

/// Ends each pause of the service.
pub(super) fn resume_service(session: &mut Session) -> Result<u8, Failure> {
    let client = session.client()?;
    client.ask(&down::pause(Duration::ZERO))?;
    gate::set_open(&client, Label::SERVICE)?;
    tell(session)
}

/// Says whether the service is paused.
fn tell(session: &mut Session) -> Result<u8, Failure> {
    let until = session.client()?.ask(&stats::service())?.paused_until();
    if session.out.is_json() {
        session.out.value(&json!({ "paused": until.is_some(), "paused_until": until.map(Wall::unix_seconds) }));
    } else {
        let said = until.map_or_else(|| "tasks start again".to_owned(), times::paused);
        session.out.line(hints::typed(&said));
    }
    Ok(0)
}
