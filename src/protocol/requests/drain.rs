//! AGENT/DRAIN: an agent gets no more tasks, or gets tasks again.

use super::{Ask, Kind, Request, words};
use crate::protocol::typed::truth;

/// Give an agent no more tasks, or do again.
pub const AGENT_DRAIN: Kind = Kind::order("AGENT/DRAIN", |reader| {
    let drain = truth(&reader.fields, words::DRAIN)?.unwrap_or(true);
    Ok(Request::AgentDrain(reader.agent_id()?, drain))
});

/// Gives an agent no more tasks, or does again. The agent need not be there.
#[must_use]
pub fn drain(agent: &str, drain: bool) -> Ask<()> {
    AGENT_DRAIN.demand().with(words::AGENT_ID, agent).with(words::DRAIN, drain)
}
