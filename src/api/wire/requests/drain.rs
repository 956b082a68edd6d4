//! AGENT/DRAIN: excludes an agent from new tasks, or includes it again.

use super::{Ask, Kind, Request, words};
use crate::wire::typed::truth;

/// Excludes an agent from new tasks, or includes it again.
pub const AGENT_DRAIN: Kind = Kind::order("AGENT/DRAIN", |reader| {
    let flag = |name| truth(&reader.fields, name);
    let drain = match (flag(words::DRAIN)?, flag(words::AHEAD)?) {
        (Some(false), _) => Drain::Undo,
        (_, Some(true)) => Drain::Ahead,
        _ => Drain::Begin,
    };
    Ok(Request::AgentDrain(reader.agent_id()?, drain))
});

/// Whether an agent gets new tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    /// It gets none from now on.
    Begin,
    /// The same, even if no agent has that name yet.
    Ahead,
    /// It gets tasks again.
    Undo,
}

/// Excludes an agent from new tasks, or includes it again.
#[must_use]
pub fn drain(agent: &str, drain: Drain) -> Ask<()> {
    let ask = AGENT_DRAIN.demand().with(words::AGENT_ID, agent).with(words::DRAIN, drain != Drain::Undo);
    if drain == Drain::Ahead { ask.with(words::AHEAD, true) } else { ask }
}
