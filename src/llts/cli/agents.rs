//! `llts agents`: all agents, by their ids.

use serde_json::{Value, json};

use super::selection::ids::short;
use api::client::{Client, ClientError};
use api::wire::requests;
use api::wire::requests::agents::AgentRow;
use base::{ToolName, ToolSet};
use proc::clock;
use term::exit::Failure;
use term::output::to_value;
use term::session::Session;
use term::table::{Column, Give, Omit, Table};
use term::times;

/// Agents per request.
const PAGE: u64 = 1000;

pub(super) fn run(session: &mut Session) -> Result<u8, Failure> {
    let agents = collect(&session.client()?)?;
    if session.out.is_json() {
        let agents: Vec<Value> = agents.iter().map(|agent| to_value(agent.fields())).collect();
        session.out.value(&json!({ "total": agents.len(), "agents": agents }));
        return Ok(0);
    }
    let now = clock::now().wall;
    let is_terminal = session.out.look().is_terminal;
    let mut table = Table::of([
        Column::new("AGENT").gives(Give::Middle(12)),
        Column::new("STATUS"),
        Column::new("DRAINED").omitted_if(Omit::Empty),
        Column::new("TAGS").gives(Give::End(8)).omitted_if(Omit::Empty),
        Column::new("TOOLS").rank(2),
        Column::new("WARM").gives(Give::End(8)).omitted_if(Omit::Empty),
        Column::new("TASK").omitted_if(Omit::Empty),
        Column::new("VERSION").omitted_if(Omit::Alike).rank(3),
        Column::new("IP").omitted_if(Omit::Alike).rank(4),
        Column::new("HEARD").rank(1),
    ]);
    for agent in &agents {
        let heard = agent.heard_at().map(|heard| format!("{} ago", times::duration(now.since(heard))));
        let (drained, heard) = (if agent.is_drained() { "yes" } else { "" }, heard.unwrap_or_default());
        let tools = agent.tools().map(|tools| counted(&tools)).unwrap_or_default();
        let warm = agent.warm();
        table.row([
            agent.id(),
            agent.status(),
            drained,
            agent.tags(),
            &tools,
            &warm.iter().map(ToolName::as_str).collect::<Vec<_>>().join(","),
            if is_terminal { short(agent.task()) } else { agent.task() },
            agent.version(),
            agent.ip(),
            &heard,
        ]);
    }
    session.out.table(&table);
    for agent in agents {
        let versions: Vec<_> =
            agent.own_versions().iter().map(|(tool, digest)| format!("{tool} {}", digest.short())).collect();
        if versions.is_empty() {
            continue;
        }
        let (id, versions) = (agent.id(), versions.join(", "));
        session.out.line(format_args!(
            "AGENT_TOOLS_DIR of {id} has {versions}, which goes before the version of the controller"
        ));
    }
    Ok(0)
}

/// The number of tools of an agent; their names are in `--output json`.
fn counted(tools: &ToolSet) -> String {
    match tools {
        ToolSet::Only(names) => names.len().to_string(),
        ToolSet::AllBut(names) if names.is_empty() => "all".to_owned(),
        ToolSet::AllBut(names) => format!("all but {}", names.len()),
    }
}

/// All agents, page by page.
pub(super) fn collect(client: &Client) -> Result<Vec<AgentRow>, ClientError> {
    let mut agents: Vec<AgentRow> = Vec::new();
    loop {
        let page = client.ask(&requests::agents::agents(agents.len() as u64, PAGE))?;
        let last = page.rows.is_empty();
        agents.extend(page.rows);
        if last || agents.len() as u64 >= page.total {
            return Ok(agents);
        }
    }
}
