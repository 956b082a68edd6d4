//! The data about one agent. The registry of agents, and the order in which they wait, are [`super::agents`]'s concern.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::effect::{ConnectionId, Ticket};
use super::tool_sets::SetId;
use api::wire::requests::agents::AgentState;
use api::wire::requests::apply::ListTerms;
use api::wire::requests::heartbeat::OwnVersions;
use api::wire::version::Version;
use base::{HostAddress, Mono, Offer, Round, Session, Skew, TaskId, Wall};

/// The state of an agent's slot.
///
/// | from | to | when |
/// |---|---|---|
/// | - | Free | any message of an unknown agent |
/// | Free, Lost | Parked | an APPLY that may wait, while no task waits |
/// | Free, Parked | Busy | it gets a task |
/// | Busy | Free | its task has finished or is void |
/// | Free | Stray | it reports a run that is not wanted any more, or an occupied slot |
/// | Stray | Free | it reports a free slot |
/// | any | Lost | silent for two intervals |
/// | Lost | Free, Stray | a message of it |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Free,
    /// Waits for a task, which will be the answer to this request. The number orders agents by waiting time.
    Parked(Ticket, u64),
    Busy(TaskId),
    Stray,
    Lost,
}

/// The controller's knowledge of the process behind an agent id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Liveness {
    /// Its task was stored by an earlier controller; no message has arrived since.
    Restored,
    /// The agent has sent a message since then, but has not mentioned the task yet.
    Returned(Mono),
    /// This session of it has sent messages.
    Session(Session),
}

impl Liveness {
    pub(super) fn session(self) -> Session {
        match self {
            Self::Session(session) => session,
            Self::Restored | Self::Returned(_) => Session::default(),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Agent {
    pub(super) liveness: Liveness,
    pub(super) slot: Slot,
    /// Its list, which has the task of its slot and those behind it.
    pub(super) list: Option<Box<List>>,
    /// Whether it was sent its task more than once.
    pub(super) told_again: bool,
    /// The run that it got last, until it has reported the end of it or asks for another one.
    pub(super) given: Option<(TaskId, Round)>,
    /// The remains of its last run, which keep its slot: set if it did not ask for another task when it reported the end.
    pub(super) left: Option<(TaskId, String)>,
    /// Whether it has ever waited for a task or had one.
    pub(super) has_worked: bool,
    /// Its place among the agents that may make room for others.
    pub(super) dispensable: Option<(Dispensable, u64)>,
    pub(super) heard: Mono,
    pub(super) heard_wall: Wall,
    /// Its last silence that was longer than a heartbeat is ever late, from the message before it to the one after it.
    pub(super) silence: Option<(Mono, Mono)>,
    /// The number of its newest heartbeat, if its heartbeats have numbers, and the connection that brought it.
    pub(super) newest_beat: Option<(u32, ConnectionId)>,
    pub(super) ip: Option<String>,
    /// The same, if it is on another machine than the controller.
    pub(super) host: Option<HostAddress>,
    /// Its version, if it reports that.
    pub(super) version: Option<Version>,
    /// Versions of tools in its own folder that went before those of the controller.
    pub(super) own_versions: Option<Arc<OwnVersions>>,
    /// The offer in its heartbeats; empty before the first one.
    pub(super) offer: Offer,
    /// Its tools, known from its first message on ([`super::tools`]).
    pub(super) tools: Option<Tools>,
    /// Whether it gets no more tasks.
    pub(super) drained: bool,
    /// The connection that parked it last.
    pub(super) connection: Option<ConnectionId>,
    /// The difference of its clock that it has reported.
    pub(super) skew: Option<Skew>,
    /// The time that it needs to end a run, if it reports that.
    pub(super) kill_budget: Option<Duration>,
}

/// The list of an agent.
#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) terms: ListTerms,
    /// The place of the agent's task in it.
    pub(super) running: u32,
    /// The tasks behind that one, each with its place.
    pub(super) ahead: VecDeque<(u32, TaskId)>,
}

impl List {
    /// The tasks behind the agent's task.
    pub(super) fn ahead(&self) -> impl Iterator<Item = TaskId> {
        self.ahead.iter().map(|(_, task)| *task)
    }
}

/// The tools of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tools {
    pub(super) set: SetId,
    /// The agent's number for its report of tools; `None` if it reports none.
    pub(super) generation: Option<u64>,
}

/// Why an agent may be forgotten to make room for another one. Its next message would register it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dispensable {
    /// It is lost.
    Lost,
    /// It has never waited for a task or had one, so it may be nothing but a name.
    Idle,
}

impl Agent {
    /// The list in which it is parked, and its number there, while it waits and may get a task.
    pub(super) fn parked_as(&self) -> Option<(SetId, u64)> {
        match (self.slot, self.drained, self.tools) {
            (Slot::Parked(_, number), false, Some(tools)) => Some((tools.set, number)),
            _ => None,
        }
    }

    /// The reason why it may be forgotten to make room, if any.
    pub(super) const fn why_dispensable(&self) -> Option<Dispensable> {
        match self.slot {
            Slot::Lost => Some(Dispensable::Lost),
            Slot::Free if !self.has_worked => Some(Dispensable::Idle),
            Slot::Free | Slot::Parked(..) | Slot::Busy(_) | Slot::Stray => None,
        }
    }
}

/// The state of a slot for clients.
pub(super) const fn state(slot: Slot) -> AgentState {
    match slot {
        Slot::Free | Slot::Parked(..) => AgentState::Free,
        Slot::Busy(_) | Slot::Stray => AgentState::Busy,
        Slot::Lost => AgentState::Lost,
    }
}
