//! The processes of a service.

use std::fmt;

/// A part of the service: one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The controller.
    Controller,
    /// An agent, counted from 1. A restarted one has the number, and thus the id, of its predecessor. One that is started for
    /// another one, whose slot is lent, has a number above all of these.
    Agent(u16),
}

/// The start of the id of an agent, and of one that was started for another one.
const AGENT: &str = "agent-";
const LENT_AGENT: &str = "lent-agent-";

impl Role {
    /// The numbers of agents that are started so are above those of all others.
    pub const LENT_FROM: u16 = 1000;

    /// Whether this is the id of an agent that a supervisor has started beside its controller.
    #[must_use]
    pub fn is_named(id: &str) -> bool {
        let number = id.strip_prefix(LENT_AGENT).or_else(|| id.strip_prefix(AGENT));
        number.is_some_and(|number| number.parse::<u16>().is_ok_and(|number| number > 0))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller => f.write_str("controller"),
            Self::Agent(number) => match number.checked_sub(Self::LENT_FROM) {
                None | Some(0) => write!(f, "{AGENT}{number}"),
                Some(number) => write!(f, "{LENT_AGENT}{number}"),
            },
        }
    }
}
