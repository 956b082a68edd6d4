//! The parts of archives and files that agents and clients have asked for. Only a few are read and sent at a time, so that any
//! number of agents that fetch tools shares the loop fairly with everything else.

use std::collections::{BTreeMap, VecDeque};

use crate::turn::effect::{ConnectionId, Ticket};
use api::wire::requests::tool::ToolGet;
use base::{AgentId, ToolDigest};

/// The last request of an agent that fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fetching {
    pub(crate) digest: ToolDigest,
    /// Bytes that the agent has.
    pub(crate) offset: u64,
    /// Bytes of the version.
    pub(crate) total: u64,
}

#[derive(Debug, Default)]
pub(crate) struct ToolReads {
    /// The requests that are being read.
    running: usize,
    waiting: VecDeque<(Ticket, ToolGet)>,
    fetching: BTreeMap<AgentId, Fetching>,
}

impl ToolReads {
    /// Queues a request of an agent, or of a client.
    pub(crate) fn add(&mut self, ticket: Ticket, agent: Option<&AgentId>, get: ToolGet, total: u64) {
        self.waiting.push_back((ticket, get));
        if let Some(agent) = agent {
            self.fetching.insert(agent.clone(), Fetching { digest: get.digest, offset: get.offset, total });
        }
    }

    /// The next request, if fewer than `max` are being read.
    pub(crate) fn next(&mut self, max: usize) -> Option<(Ticket, ToolGet)> {
        if self.running >= max {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.running += 1;
        Some(next)
    }

    /// A request was read.
    pub(crate) const fn done(&mut self) {
        self.running -= 1;
    }

    /// The archive or file that an agent is fetching.
    pub(crate) fn of(&self, agent: &AgentId) -> Option<Fetching> {
        self.fetching.get(agent).copied()
    }

    /// An agent runs something, or is gone: it is not fetching any more.
    pub(crate) fn end(&mut self, agent: &AgentId) {
        if !self.fetching.is_empty() {
            self.fetching.remove(agent);
        }
    }

    /// A connection is gone, with the requests that have not been read yet.
    pub(crate) fn forget(&mut self, connection: ConnectionId) -> Vec<Ticket> {
        let is_gone = |(ticket, _): &(Ticket, ToolGet)| ticket.connection == connection;
        let gone = self.waiting.iter().filter(|waiting| is_gone(waiting)).map(|(ticket, _)| *ticket).collect();
        self.waiting.retain(|waiting| !is_gone(waiting));
        gone
    }
}
