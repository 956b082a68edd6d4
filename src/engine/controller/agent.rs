//! What is known of one agent. Who is registered, and in which order agents wait, is [`super::agents`]'s concern.

use std::time::Duration;

use super::effect::{ConnectionId, Ticket};
use super::tool_sets::SetId;
use crate::protocol::reply::AgentState;
use crate::types::{Mono, Offer, Round, Session, TaskId, Wall};

/// What an agent is doing.
///
/// | from | to | when |
/// |---|---|---|
/// | - | Free | any message of an unknown agent |
/// | Free, Lost | Parked | APPLY that may wait, and no task waits |
/// | Free, Parked | Busy | it gets a task |
/// | Busy | Free | its task has finished or is void |
/// | Free | Stray | it says that it has a run that nobody wants any more, or that its slot is not free |
/// | Stray | Free | it says that its slot is free |
/// | any | Lost | silent for two intervals |
/// | Lost | Free, Stray | heard again |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Free,
    /// Waits for a task; the answer to this request will be one. The number says who has waited longest.
    Parked(Ticket, u64),
    Busy(TaskId),
    Stray,
    Lost,
}

/// What is known of the process behind an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Liveness {
    /// Its task was stored by a former controller; it has not been heard since.
    Restored,
    /// Heard since then, but not of that task.
    Returned(Mono),
    /// This life of it speaks.
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
    /// Whether it looks into its tools folder when it is asked to.
    pub(super) looks: bool,
    /// Whether all agents had looked for the tool of the task that it has, in vain, before it got it.
    pub(super) is_last_resort: bool,
    /// Whether it was told more than once of the task that it has.
    pub(super) told_again: bool,
    /// The run that it got last, until it has reported the end of it or asks for another one.
    pub(super) given: Option<(TaskId, Round)>,
    /// What its last run has left, if it did not ask for another one with the end of that: what keeps its slot.
    pub(super) left: Option<(TaskId, String)>,
    /// Whether it has ever waited for a task or had one.
    pub(super) has_worked: bool,
    /// Its place among those that make room for others.
    pub(super) dispensable: Option<(Dispensable, u64)>,
    pub(super) heard: Mono,
    pub(super) heard_wall: Wall,
    pub(super) ip: Option<String>,
    /// As it says with its heartbeats: before the first one, nothing.
    pub(super) offer: Offer,
    /// Which tools it has, as soon as it has been heard ([`super::tools`]).
    pub(super) tools: Option<Tools>,
    /// Whether it shall get no more tasks.
    pub(super) drained: bool,
    /// By which connection it was parked last.
    pub(super) connection: Option<ConnectionId>,
    /// What it needs to end a run, as it says.
    pub(super) kill_budget: Option<Duration>,
}

/// The tools of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tools {
    pub(super) set: SetId,
    /// The number that the agent gave to what it has told, if it tells at all.
    pub(super) generation: Option<u64>,
}

/// Why an agent may be forgotten when there is no room for another one: whatever it says next makes it known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dispensable {
    /// It is lost.
    Lost,
    /// It has never waited for a task or had one: perhaps it is nothing but a name.
    Idle,
}

impl Agent {
    /// The list that it is parked in, and its number there, while it waits and may get a task.
    pub(super) fn parked_as(&self) -> Option<(SetId, u64)> {
        match (self.slot, self.drained, self.tools) {
            (Slot::Parked(_, number), false, Some(tools)) => Some((tools.set, number)),
            _ => None,
        }
    }

    /// Why it may be forgotten to make room, if it may.
    pub(super) const fn why_dispensable(&self) -> Option<Dispensable> {
        match self.slot {
            Slot::Lost => Some(Dispensable::Lost),
            Slot::Free if !self.has_worked => Some(Dispensable::Idle),
            Slot::Free | Slot::Parked(..) | Slot::Busy(_) | Slot::Stray => None,
        }
    }
}

/// How a slot is shown.
pub(super) const fn state(slot: Slot) -> AgentState {
    match slot {
        Slot::Free | Slot::Parked(..) => AgentState::Free,
        Slot::Busy(_) | Slot::Stray => AgentState::Busy,
        Slot::Lost => AgentState::Lost,
    }
}
