//! The archives of tools and the files of tasks: what the controller holds, and the requests that wait for them.

pub(in crate::engine) mod catalog;
pub(in crate::engine) mod tool_order;
pub(in crate::engine) mod tool_reads;

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
pub(in crate::engine) struct Postponed {
    pub(in crate::engine) ticket: Ticket,
    pub(in crate::engine) request: Request,
    /// The connected steps of a graph, if that was done before.
    pub(in crate::engine) plan: Option<Arc<Graph>>,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(in crate::engine) struct Archives {
    /// The tools that the controller holds, with the versions that unfinished tasks have pinned.
    pub(in crate::engine) catalog: Catalog,
    /// The requests that wait, in the order in which they came.
    pub(in crate::engine) postponed: VecDeque<Postponed>,
    /// The parts that agents have asked for.
    pub(in crate::engine) reads: ToolReads,
    /// The identity of the controller's own tools folder, for agents.
    pub(in crate::engine) folder: Option<Arc<str>>,
    /// The identity of the folder of the store, for those that have files to put there.
    pub(in crate::engine) store: Option<Arc<str>>,
    /// The files for whose lack the last submit of a connection was refused, if its sender may not send commands.
    pub(in crate::engine) expected: BTreeMap<ConnectionId, BTreeSet<ToolDigest>>,
}
