//! AGENT/DETAILS: agents, in the order of their ids, in pages.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::heartbeat::{self, OwnVersions};
use super::{Ask, Kind, Listing, Request, words};
use crate::wire::client::view;
use base::json::ObjectWriter;
use base::{AgentId, Fields, Labels, TaskId, ToolName, ToolSet, Wall};

/// All agents, in pages.
pub const AGENT_DETAILS: Kind = Kind::question("AGENT/DETAILS", |mut reader| Ok(Request::AgentDetails(reader.page()?)));

/// Requests agents, in the order of their ids. The controller may return fewer than `limit`: request the next page from there.
#[must_use]
pub fn agents(offset: u64, limit: u64) -> Ask<Listing<AgentRow>> {
    AGENT_DETAILS.ask_for_rows().with(words::OFFSET, offset).with(words::LIMIT, limit)
}

/// The data of one agent in AGENT/DETAILS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentView {
    /// Id of the agent.
    pub id: AgentId,
    /// Its state.
    pub state: AgentState,
    /// The task that it has.
    pub task: Option<TaskId>,
    /// Its IP address.
    pub ip: Option<String>,
    /// The version of its program, if the agent reports it.
    pub version: Option<Cow<'static, str>>,
    /// Its tags.
    pub tags: Labels,
    /// Its tools, once it has reported them.
    pub tools: Option<Arc<ToolSet>>,
    /// Versions of tools in its own folder that went before those of the controller.
    pub own_versions: Option<Arc<OwnVersions>>,
    /// The tools that stay at it.
    pub warm: BTreeSet<ToolName>,
    /// Whether it is excluded from new tasks.
    pub drained: bool,
    /// The time of its last message.
    pub heard: Wall,
}

/// The state of an agent, as AGENT/QUERY counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// Its slot is free.
    Free,
    /// It has a task.
    Busy,
    /// It has been silent for `AGENT_LOST_AFTER`, by default two heartbeat intervals.
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
pub(in crate::wire) fn write(agent: &AgentView, writer: &mut ObjectWriter<'_>) {
    writer.object(agent.id.as_str(), |writer| write_fields(agent, writer));
}

fn write_fields(agent: &AgentView, writer: &mut ObjectWriter<'_>) {
    writer.text(words::AGENT_ID, agent.id.as_str());
    writer.text(words::AGENT_STATUS, agent.state.word());
    writer.maybe_text(words::TASK_ID, agent.task.map(|task| task.to_string()));
    writer.maybe_text(words::AGENT_IP, agent.ip.as_deref());
    writer.maybe_text(words::PROGRAM_VERSION, agent.version.as_deref());
    if !agent.tags.is_empty() {
        writer.text(words::TAGS, &agent.tags.to_string());
    }
    writer.maybe_text(words::TOOLS, agent.tools.as_ref().map(ToString::to_string));
    writer.maybe_text(words::OWN_VERSIONS, agent.own_versions.as_deref().map(heartbeat::own_versions));
    if !agent.warm.is_empty() {
        writer.text(words::WARM, &heartbeat::names(&agent.warm));
    }
    if agent.drained {
        writer.literal(words::DRAINED, true);
    }
    writer.moment(words::HEARD_TIME, agent.heard);
}

view! {
    /// An agent.
    AgentRow {
        /// Id of the agent.
        id: &str = |fields| fields.text(words::AGENT_ID).unwrap_or_default();
        /// The word for its state.
        status: &str = |fields| fields.text(words::AGENT_STATUS).unwrap_or_default();
        /// Id of its task, or an empty text.
        task: &str = |fields| fields.text(words::TASK_ID).unwrap_or_default();
        /// Its tags.
        tags: &str = |fields| fields.text(words::TAGS).unwrap_or_default();
        /// Whether it is excluded from new tasks.
        is_drained: bool = |fields| fields.flag(words::DRAINED);
        /// Its IP address.
        ip: &str = |fields| fields.text(words::AGENT_IP).unwrap_or_default();
        /// The version of its program, or an empty text.
        version: &str = |fields| fields.text(words::PROGRAM_VERSION).unwrap_or_default();
        /// The time of its last message.
        heard_at: Option<Wall> = |fields| fields.moment(words::HEARD_TIME);
    }
}

impl AgentRow {
    /// The versions of tools in its own folder that went before those of the controller.
    #[must_use]
    pub fn own_versions(&self) -> OwnVersions {
        self.0.text(words::OWN_VERSIONS).and_then(heartbeat::read_own_versions).unwrap_or_default()
    }

    /// The tools that stay at it.
    #[must_use]
    pub fn warm(&self) -> BTreeSet<ToolName> {
        heartbeat::read_names(self.0.text(words::WARM).unwrap_or_default())
    }

    /// Its tools; `None` for an agent that has not been heard since the start of the controller.
    #[must_use]
    pub fn tools(&self) -> Option<ToolSet> {
        self.0.text(words::TOOLS).and_then(|text| ToolSet::parse(text).ok())
    }
}
