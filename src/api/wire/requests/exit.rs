//! AGENT/EXIT (docs/sources/controller.md, 5.1): an agent leaves for good.

use super::{FromAgent, Kind};

/// The agent leaves for good.
pub const AGENT_EXIT: Kind = Kind::of_agents("AGENT/EXIT", |_| Ok(FromAgent::Exit));
