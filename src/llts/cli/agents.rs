//! `llts agents`: all agents, by their ids.

use serde_json::{Value, json};

use super::selection::ids::short;
use api::wire::requests::agents::AgentRow;
use base::{ToolName, ToolSet, Wall};
use proc::clock;
use term::exit::Failure;
use term::output::to_value;
use term::session::Session;
use term::table::{Column, Give, Omit, Table};
use term::times;

pub(super) fn run(session: &mut Session) -> Result<u8, Failure> {
    let agents = session.client()?.agents()?;
    if session.out.is_json() {
        let agents: Vec<Value> = agents.iter().map(|agent| to_value(agent.fields())).collect();
        session.out.value(&json!({ "total": agents.len(), "agents": agents }));
        return Ok(0);
    }
    session.out.table(&table(&agents, clock::now().wall, session.out.look().is_terminal, None));
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

/// Returns a text about a task, by its id.
type Doing<'a> = dyn Fn(&str) -> String + 'a;

/// The table of agents. `doing` describes a task, where its activity is known.
pub(super) fn table(agents: &[AgentRow], now: Wall, is_terminal: bool, doing: Option<&Doing<'_>>) -> Table {
    let mut columns = vec![
        Column::new("AGENT").gives(Give::Middle(12)),
        Column::new("STATUS"),
        Column::new("PAUSED").omitted_if(Omit::Empty),
        Column::new("TAGS").gives(Give::End(8)).omitted_if(Omit::Empty),
        Column::new("TOOLS").rank(2),
        Column::new("WARM").gives(Give::End(8)).omitted_if(Omit::Empty),
        Column::new("TASK").omitted_if(Omit::Empty),
        Column::new("VERSION").omitted_if(Omit::Alike).rank(3),
        Column::new("IP").omitted_if(Omit::Alike).rank(4),
        Column::new("HEARD").rank(1),
    ];
    columns.extend(doing.map(|_| Column::new("DOING").gives(Give::End(12)).omitted_if(Omit::Empty)));
    let mut table = Table::of(columns);
    for agent in agents {
        let heard = agent.heard_at().map(|heard| format!("{} ago", times::duration(now.since(heard))));
        let (drained, heard) = (if agent.is_drained() { "yes" } else { "" }, heard.unwrap_or_default());
        let tools = agent.tools().map(|tools| counted(&tools)).unwrap_or_default();
        let warm = agent.warm();
        let cells = [
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
        ];
        let doing = doing.map(|doing| doing(agent.task()));
        table.row(cells.into_iter().chain(doing.as_deref()));
    }
    table
}

/// The number of tools of an agent; their names are in `--output json`.
fn counted(tools: &ToolSet) -> String {
    match tools {
        ToolSet::Only(names) => names.len().to_string(),
        ToolSet::AllBut(names) if names.is_empty() => "all".to_owned(),
        ToolSet::AllBut(names) => format!("all but {}", names.len()),
    }
}
