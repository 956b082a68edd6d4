//! `llts pause` and `llts resume`: keep tasks, jobs, agents, a gate or the whole service from starting anything, and end that.

use std::time::Duration;

use clap::Args;

use super::Session;
use super::agents;
use super::drain::{self, DrainArgs};
use super::exit::Failure;
use super::gate::{self, CloseArgs};
use super::hold;
use super::selection::Selection;
use super::when::{self, Moment};
use crate::protocol::requests::down;

#[derive(Args, Debug)]
#[command(after_help = "\
What runs goes on; nothing else starts. A paused task waits, and so does the next round of a running one. `all`, and a selection \
without ids, mean the tasks that have not finished; tasks of a job that are submitted later are not among them. A paused agent gets \
no more tasks, also after a restart of the agent and of the controller. --service pauses all agents that the service has. \
`llts resume` takes the same words.")]
pub(super) struct PauseArgs {
    #[command(flatten)]
    what: What,
    /// Also agents that have not come yet
    #[arg(long, requires = "agent")]
    ahead: bool,
    /// With --gate: the time for which it is closed [default: until `llts resume`]
    #[arg(long = "for", id = "span", value_name = "DURATION", value_parser = when::duration, conflicts_with = "until")]
    #[arg(requires = "gate")]
    span: Option<Duration>,
    /// With --gate: the moment until which it is closed
    #[arg(long, value_name = "MOMENT", value_parser = when::moment, requires = "gate")]
    until: Option<Moment>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Takes the words of `llts pause`. --service also ends the pause of a `llts down --wait` that was interrupted.")]
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
    /// All agents
    #[arg(long, conflicts_with_all = ["selection", "agent", "host", "gate"])]
    service: bool,
}

/// What a command concerns, once it is known that the user has named something.
enum Resting {
    Tasks,
    Agents,
    Gate(String),
}

impl What {
    fn resting(&self, verb: &str) -> Result<Resting, Failure> {
        if let Some(gate) = &self.gate {
            return Ok(Resting::Gate(gate.clone()));
        }
        if self.service || self.host.is_some() || !self.agent.is_empty() {
            return Ok(Resting::Agents);
        }
        if self.selection.is_given() {
            return Ok(Resting::Tasks);
        }
        Err(Failure::usage(format!(
            "{verb} what? llts {verb} TASK, llts {verb} --job NAME, --agent AGENT, --gate GATE, or --service"
        )))
    }

    /// The agents, as `drain` takes them.
    fn agents(&self, session: &Session, undo: bool, ahead: bool) -> Result<DrainArgs, Failure> {
        let agents = if self.service {
            agents::collect(&session.client()?)?.iter().map(|agent| agent.id().to_owned()).collect()
        } else {
            self.agent.clone()
        };
        Ok(DrainArgs { agents, host: self.host.clone(), ahead, undo })
    }
}

pub(super) fn run(session: &mut Session, args: &PauseArgs) -> Result<u8, Failure> {
    match args.what.resting("pause")? {
        Resting::Tasks => hold::set_held(session, &args.what.selection, true),
        Resting::Agents => {
            let agents = args.what.agents(session, false, args.ahead)?;
            drain::run(session, &agents)
        }
        Resting::Gate(name) => gate::close(session, &CloseArgs::new(name, args.span, args.until)),
    }
}

pub(super) fn resume(session: &mut Session, args: &ResumeArgs) -> Result<u8, Failure> {
    match args.what.resting("resume")? {
        Resting::Tasks => hold::set_held(session, &args.what.selection, false),
        Resting::Agents => {
            let agents = args.what.agents(session, true, false)?;
            if args.what.service {
                session.client()?.ask(&down::pause(Duration::ZERO))?;
            }
            drain::run(session, &agents)
        }
        Resting::Gate(name) => gate::open(session, &name),
    }
}
