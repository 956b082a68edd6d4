//! Departures from the controller: the instructions of [`crate::Sequencer`] to the shell.

use std::time::Duration;

use super::effect::Record;
use crate::archives::tool_order::ToolOrder;
use api::wire::publish::Published;
use api::wire::reply::Reply;
use base::{GraphChange, JobStatus, Mono, TaskRecord};

/// The route of a reply, which only the door of the request understands, and the kind of request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route<R> {
    /// The door's own return address.
    pub to: R,
    /// The `__TYPE__` of the request.
    pub kind: &'static str,
}

/// An instruction to the shell.
#[must_use]
#[derive(Debug, PartialEq)]
pub enum Departure<R> {
    /// Send this reply. It may be delayed for `delay_max`, to share a write with another message to the same peer. A reply
    /// that cannot be sent goes to [`crate::Sequencer::handle_undelivered`].
    Reply {
        /// The route of the reply.
        route: Route<R>,
        /// The reply.
        reply: Reply,
        /// Zero if a client waits for it.
        delay_max: Duration,
    },
    /// Publish this to agents and subscribers.
    Publish(Published),
    /// Hand over to the network all replies and publications before this one.
    Flush,
    /// Commit these records, and call [`crate::Sequencer::handle_stored`] or [`crate::Sequencer::handle_trouble`]. At most one commit is
    /// under way.
    Commit(Vec<Record>),
    /// The state of a task has changed. It is to be written to the address of the task by the deadline, and shown to
    /// subscribers.
    Push {
        /// 1 for the first change since the start of the controller, increasing by one.
        number: u64,
        /// The task after the change.
        record: Box<TaskRecord>,
        /// The deadline of the write; until then it may be delayed for batching.
        by: Mono,
    },
    /// The end of a task has not been confirmed: push it to its address again.
    PushAgain(Box<TaskRecord>),
    /// A job has changed: push its state to its receivers, and publish it to subscribers.
    JobStatus(Box<JobStatus>),
    /// Carry this out on the archives of tools, and call [`crate::Controller::handle_tool`] with its outcome.
    Tool(ToolOrder),
    /// A step graph has changed: push the change to its address, and publish it to subscribers.
    GraphStatus(Box<GraphChange>),
}
