//! AGENT/DRAIN: excludes an agent from new tasks, or includes it again.

use super::{Ask, Kind, Request, words};
use crate::protocol::typed::truth;

/// Excludes an agent from new tasks, or includes it again.
pub const AGENT_DRAIN: Kind = Kind::order("AGENT/DRAIN", |reader| {
    let drain = truth(&reader.fields, words::DRAIN)?.unwrap_or(true);
    Ok(Request::AgentDrain(reader.agent_id()?, drain))
});

/// Excludes an agent from new tasks, or includes it again. The agent need not exist.
#[must_use]
pub fn drain(agent: &str, drain: bool) -> Ask<()> {
    AGENT_DRAIN.demand().with(words::AGENT_ID, agent).with(words::DRAIN, drain)
}
