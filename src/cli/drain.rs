//! `llts drain`: exclude agents from new tasks, or include them again.

use clap::Args;
use serde_json::{Value, json};

use super::Session;
use super::agents;
use super::change::about;
use super::exit::{self, Failure};
use super::output::note;
use crate::client::{Client, ClientError};
use crate::protocol::requests;
use crate::protocol::requests::agents::AgentRow;

#[derive(Args, Debug)]
#[command(after_help = "\
A task that an agent already has continues. Draining persists over a restart of the agent and of the controller; --undo ends it. \
An agent can be drained before it is started.")]
pub(super) struct DrainArgs {
    /// The agents
    #[arg(value_name = "AGENT", required = true)]
    agents: Vec<String>,
    /// Give them tasks again
    #[arg(long)]
    undo: bool,
}

pub(super) fn run(session: &mut Session, args: &DrainArgs) -> Result<u8, Failure> {
    let client = session.client()?;
    let known = agents::collect(&client)?;
    let mut worst = 0;
    let mut values = Vec::new();
    for id in &args.agents {
        let agent = known.iter().find(|agent| agent.id() == id);
        match drain(&client, id, !args.undo)? {
            None => {
                values.push(json!({ "agent": id, "drained": !args.undo, "known": agent.is_some(), "error": null }));
                if !session.out.is_json() {
                    session.out.line(sentence(id, agent, args.undo));
                }
            }
            Some(failure) => {
                note(&about(id, &failure.sentence));
                worst = worst.max(failure.exit);
                values
                    .push(json!({ "agent": id, "drained": null, "known": agent.is_some(), "error": failure.sentence }));
            }
        }
    }
    if session.out.is_json() {
        session.out.value(&Value::Array(values));
    }
    Ok(worst)
}

/// The refusal of the controller, if it refused.
fn drain(client: &Client, id: &str, drain: bool) -> Result<Option<Failure>, ClientError> {
    match client.ask(&requests::drain::drain(id, drain)) {
        Ok(()) => Ok(None),
        Err(error @ ClientError::Reply(_)) => Ok(Some(Failure::new(exit::REFUSED, error.to_string()))),
        Err(error) => Err(error),
    }
}

/// An unknown name is probably mistyped, so the sentence says that it is unknown.
fn sentence(id: &str, agent: Option<&AgentRow>, undo: bool) -> String {
    match agent {
        Some(_) if undo => format!("{id} gets tasks again"),
        None if undo => format!("{id} would get tasks again; no agent has that name"),
        Some(agent) if !agent.task().is_empty() => format!("{id} gets no more tasks; it still has {}", agent.task()),
        Some(_) => format!("{id} gets no more tasks"),
        None => format!("{id} will get no tasks; no agent has that name"),
    }
}
