//! The processes of a service.

use std::fmt;

/// A part of the service: one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The controller.
    Controller,
    /// An agent, counted from 1. A restarted agent keeps the number, and so the id, of its predecessor. An agent that
    /// replaces another one, whose slot is lent, has a number above [`Self::LENT_FROM`].
    Agent(u16),
}

/// The prefixes of ids: of an agent, and of one that replaces an agent whose slot is lent.
const AGENT: &str = "agent-";
const LENT_AGENT: &str = "lent-agent-";

impl Role {
    /// The numbers of agents for lent slots are above this one; those of all others are not.
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
