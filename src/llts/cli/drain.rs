//! `llts drain`: keep new tasks away from agents, or let them have tasks again.

use std::net::ToSocketAddrs as _;

use clap::Args;
use serde_json::{Value, json};

use super::change::about;
use api::wire::requests;
use api::wire::requests::agents::AgentRow;
use api::wire::requests::drain::Drain;
use llts_client::{Client, ClientError};
use term::exit;
use term::exit::Failure;
use term::output::note;
use term::session::Session;

#[derive(Args, Debug)]
#[command(after_help = "\
A task that an agent already has continues. Draining persists over a restart of the agent and of the controller; --undo ends it. \
An agent can be drained before it is started with --ahead.")]
pub(super) struct DrainArgs {
    /// The agents
    #[arg(value_name = "AGENT", required_unless_present = "host")]
    pub(super) agents: Vec<String>,
    /// All agents of a machine: its address, its name, or the first part of the names of its agents
    #[arg(long, value_name = "NAME", conflicts_with = "agents")]
    pub(super) host: Option<String>,
    /// Also agents that have not come yet
    #[arg(long, conflicts_with_all = ["undo", "host"])]
    pub(super) ahead: bool,
    /// Give them tasks again
    #[arg(long)]
    pub(super) undo: bool,
}

pub(super) fn run(session: &mut Session, args: &DrainArgs) -> Result<u8, Failure> {
    let client = session.client()?;
    let known = client.agents()?;
    let named = match &args.host {
        Some(host) => of_host(&known, host)?,
        None => args.agents.clone(),
    };
    let order = match (args.undo, args.ahead) {
        (true, _) => Drain::Undo,
        (false, true) => Drain::Ahead,
        (false, false) => Drain::Begin,
    };
    let mut worst = 0;
    let mut values = Vec::new();
    for id in &named {
        let agent = known.iter().find(|agent| agent.id() == id);
        match drain(&client, id, order)? {
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

/// Sends the order for an agent. Returns the refusal, if the controller refused.
fn drain(client: &Client, id: &str, order: Drain) -> Result<Option<Failure>, ClientError> {
    match client.ask(&requests::drain::drain(id, order)) {
        Ok(()) => Ok(None),
        Err(error @ ClientError::Reply(_)) => Ok(Some(Failure::new(exit::REFUSED, error.to_string()))),
        Err(error) => Err(error),
    }
}

/// The agents of a machine.
fn of_host(known: &[AgentRow], host: &str) -> Result<Vec<String>, Failure> {
    let addresses: Vec<String> = (host, 0)
        .to_socket_addrs()
        .map(|all| all.map(|address| address.ip().to_string()).collect())
        .unwrap_or_default();
    let prefix = format!("{host}-");
    let is_of_host = |agent: &&AgentRow| {
        agent.id().starts_with(&prefix) || agent.ip() == host || addresses.iter().any(|address| address == agent.ip())
    };
    let found: Vec<String> = known.iter().filter(is_of_host).map(|agent| agent.id().to_owned()).collect();
    if found.is_empty() {
        let sentence = format!(
            "no agent is on a machine with the name or address {host:?}; the column IP of `llts agents` shows their addresses"
        );
        return Err(Failure::new(exit::REFUSED, sentence));
    }
    Ok(found)
}

fn sentence(id: &str, agent: Option<&AgentRow>, undo: bool) -> String {
    match agent {
        Some(_) if undo => format!("{id} gets tasks again"),
        None if undo => format!("{id} gets tasks again when it comes"),
        Some(agent) if !agent.task().is_empty() => format!("{id} gets no more tasks; it still has {}", agent.task()),
        Some(_) => format!("{id} gets no more tasks"),
        None => format!("{id} gets no tasks when it comes"),
    }
}
