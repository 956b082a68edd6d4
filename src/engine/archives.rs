//! The archives of tools and the files of tasks: what the controller holds, and the requests that wait for them.

pub(crate) mod catalog;
pub(crate) mod tool_order;
pub(crate) mod tool_reads;
mod work;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::turn::effect::{ConnectionId, Ticket};
use crate::graph::Graph;
use api::wire::requests::Request;
use base::ToolDigest;
use catalog::Catalog;
use tool_reads::ToolReads;

/// A request that waits until archives have been read.
#[derive(Debug)]
struct Postponed {
    ticket: Ticket,
    request: Request,
    /// The steps of the graph, if they have been connected already.
    plan: Option<Arc<Graph>>,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Archives {
    /// The tools that the controller holds, with the versions that unfinished tasks have pinned.
    pub(crate) catalog: Catalog,
    /// The requests that wait, in the order in which they came.
    postponed: VecDeque<Postponed>,
    /// The parts that agents have asked for.
    pub(crate) reads: ToolReads,
    /// The identity of the controller's own tools folder, for agents.
    folder: Option<Arc<str>>,
    /// The identity of the folder of the store, for senders on the same machine that put files there.
    store: Option<Arc<str>>,
    /// The missing files for which the last submit of a connection was refused, if its sender may not send commands.
    expected: BTreeMap<ConnectionId, BTreeSet<ToolDigest>>,
}

impl Archives {
    /// The identity of the controller's own tools folder, for agents.
    pub(crate) const fn folder(&self) -> Option<&Arc<str>> {
        self.folder.as_ref()
    }

    /// The identity of the folder of the store, for senders on the same machine that put files there.
    pub(crate) const fn store(&self) -> Option<&Arc<str>> {
        self.store.as_ref()
    }

    /// A submit on this connection was refused because these files are missing. Its sender may not send commands.
    pub(crate) fn expect(&mut self, connection: ConnectionId, missing: BTreeSet<ToolDigest>) {
        self.expected.insert(connection, missing);
    }

    /// Whether the last submit on this connection was refused because this file is missing.
    pub(crate) fn is_expected(&self, connection: ConnectionId, digest: &ToolDigest) -> bool {
        self.expected.get(&connection).is_some_and(|files| files.contains(digest))
    }

    /// A connection is gone. Returns whether a file was expected on it.
    pub(crate) fn expect_no_more(&mut self, connection: ConnectionId) -> bool {
        self.expected.remove(&connection).is_some()
    }
}
