//! AGENT/DETAILS: agents, by their ids, by pages.

use std::sync::Arc;

use super::{Ask, Kind, Listing, Request, words};
use crate::protocol::client::view;
use crate::protocol::json::ObjectWriter;
use crate::types::{AgentId, Fields, Labels, TaskId, ToolSet, Wall};

/// All agents, by pages.
pub const AGENT_DETAILS: Kind = Kind::question("AGENT/DETAILS", |mut reader| Ok(Request::AgentDetails(reader.page()?)));

/// Asks for agents, by their ids. The controller may give fewer than `limit`: ask again from there.
#[must_use]
pub fn agents(offset: u64, limit: u64) -> Ask<Listing<AgentRow>> {
    AGENT_DETAILS.ask_for_rows().with(words::OFFSET, offset).with(words::LIMIT, limit)
}

/// What AGENT/DETAILS shows of one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentView {
    /// Its id.
    pub id: AgentId,
    /// Its state.
    pub state: AgentState,
    /// The task that it has.
    pub task: Option<TaskId>,
    /// Where it is.
    pub ip: Option<String>,
    /// What it has.
    pub tags: Labels,
    /// The tools that it has, as soon as it has been heard.
    pub tools: Option<Arc<ToolSet>>,
    /// Whether it gets no more tasks.
    pub drained: bool,
    /// When it was heard last.
    pub heard: Wall,
}

/// The state of an agent, as AGENT/QUERY counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// Its slot is free.
    Free,
    /// It has a task.
    Busy,
    /// It has been silent for two heartbeat intervals.
    Lost,
}

impl AgentState {
    const fn word(self) -> &'static str {
        match self {
            Self::Free => "FREE",
            Self::Busy => "BUSY",
            Self::Lost => "LOST",
        }
    }
}

/// Writes a row.
pub(in crate::protocol) fn write(agent: &AgentView, writer: &mut ObjectWriter<'_>) {
    writer.object(agent.id.as_str(), |writer| write_fields(agent, writer));
}

fn write_fields(agent: &AgentView, writer: &mut ObjectWriter<'_>) {
    writer.text(words::AGENT_ID, agent.id.as_str());
    writer.text(words::AGENT_STATUS, agent.state.word());
    writer.maybe_text(words::TASK_ID, agent.task.map(|task| task.to_string()));
    writer.maybe_text(words::AGENT_IP, agent.ip.as_deref());
    if !agent.tags.is_empty() {
        writer.text(words::TAGS, &agent.tags.to_string());
    }
    writer.maybe_text(words::TOOLS, agent.tools.as_ref().map(ToString::to_string));
    if agent.drained {
        writer.literal(words::DRAINED, true);
    }
    writer.literal(words::HEARD_TIME, agent.heard);
}

view! {
    /// An agent.
    AgentRow {
        /// Its id.
        id: &str = |fields| fields.text(words::AGENT_ID).unwrap_or_default();
        /// The word for its state.
        status: &str = |fields| fields.text(words::AGENT_STATUS).unwrap_or_default();
        /// The task that it has, or an empty text.
        task: &str = |fields| fields.text(words::TASK_ID).unwrap_or_default();
        /// What it has that a task may require.
        tags: &str = |fields| fields.text(words::TAGS).unwrap_or_default();
        /// Whether it gets no more tasks.
        is_drained: bool = |fields| fields.flag(words::DRAINED);
        /// Where it is.
        ip: &str = |fields| fields.text(words::AGENT_IP).unwrap_or_default();
        /// When it was heard last.
        heard_at: Option<Wall> = |fields| fields.moment(words::HEARD_TIME);
    }
}

impl AgentRow {
    /// The tools that it has; `None` for one that has not been heard since the controller was started.
    #[must_use]
    pub fn tools(&self) -> Option<ToolSet> {
        self.0.text(words::TOOLS).and_then(|text| ToolSet::parse(text).ok())
    }
}
