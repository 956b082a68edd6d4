//! The data about one agent. The registry of agents, and the order in which they wait, are [`crate::engine::fleet`]'s concern.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::queue::tool_sets::SetId;
use crate::engine::turn::effect::{ConnectionId, Ticket};
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
pub(in crate::engine) enum Slot {
    Free,
    /// Waits for a task, which will be the answer to this request. The number orders agents by waiting time.
    Parked(Ticket, u64),
    Busy(TaskId),
    Stray,
    Lost,
}

/// The controller's knowledge of the process behind an agent id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Liveness {
    /// Its task was stored by an earlier controller; no message has arrived since.
    Restored,
    /// The agent has sent a message since then, but has not mentioned the task yet.
    Returned(Mono),
    /// This session of it has sent messages.
    Session(Session),
}

impl Liveness {
    pub(in crate::engine) fn session(self) -> Session {
        match self {
            Self::Session(session) => session,
            Self::Restored | Self::Returned(_) => Session::default(),
        }
    }
}

/// An agent.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Agent {
    pub(in crate::engine) slot: Slot,
    /// Its list, which has the task of its slot and those behind it.
    pub(in crate::engine) list: Option<Box<List>>,
    pub(in crate::engine) last_run: LastRun,
    /// Whether it has ever waited for a task or had one.
    pub(in crate::engine) has_worked: bool,
    /// Its place among the agents that may make room for others.
    pub(in crate::engine) dispensable: Option<(Dispensable, u64)>,
    pub(in crate::engine) contact: Contact,
    /// Its reports about itself and its machine.
    pub(in crate::engine) about: About,
    /// The offer in its heartbeats; empty before the first one.
    pub(in crate::engine) offer: Offer,
    /// Its tools, known from its first message on ([`super::tools`]).
    pub(in crate::engine) tools: Option<Tools>,
    /// Whether it gets no more tasks.
    pub(in crate::engine) drained: bool,
    /// The connection that parked it last.
    pub(in crate::engine) connection: Option<ConnectionId>,
}

/// The run that an agent got last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) enum LastRun {
    /// None, or its end is reported, or the agent has asked for another one.
    #[default]
    None,
    /// The agent has it, as far as is known here.
    Given {
        task: TaskId,
        round: Round,
        /// Whether the task was sent more than once.
        again: bool,
    },
    /// Its end is reported, and its remains keep the slot: this is the reason. The agent did not ask for another task with the end.
    Remains(TaskId, String),
}

/// When and how an agent was heard.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Contact {
    pub(in crate::engine) liveness: Liveness,
    pub(in crate::engine) heard: Mono,
    pub(in crate::engine) heard_wall: Wall,
    /// The last silence that was longer than a heartbeat is ever late, from the message before it to the one after it.
    pub(in crate::engine) silence: Option<(Mono, Mono)>,
    /// The number of the newest heartbeat, if heartbeats have numbers, and the connection that brought it.
    pub(in crate::engine) newest_beat: Option<(u32, ConnectionId)>,
}

/// The reports of an agent about itself and its machine.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct About {
    pub(in crate::engine) ip: Option<String>,
    /// The same, on another machine than that of the controller.
    pub(in crate::engine) host: Option<HostAddress>,
    pub(in crate::engine) version: Option<Version>,
    /// Versions of tools in its own folder that went before those of the controller.
    pub(in crate::engine) own_versions: Option<Arc<OwnVersions>>,
    /// The time that it needs to end a run.
    pub(in crate::engine) kill_budget: Option<Duration>,
    /// The difference of its clock.
    pub(in crate::engine) skew: Option<Skew>,
}

/// The list of an agent.
#[derive(Clone, Debug)]
pub(in crate::engine) struct List {
    pub(in crate::engine) terms: ListTerms,
    /// The place of the agent's task in it.
    pub(in crate::engine) running: u32,
    /// The tasks behind that one, each with its place.
    pub(in crate::engine) ahead: VecDeque<(u32, TaskId)>,
}

impl List {
    /// The tasks behind the agent's task.
    pub(in crate::engine) fn ahead(&self) -> impl Iterator<Item = TaskId> {
        self.ahead.iter().map(|(_, task)| *task)
    }
}

/// The tools of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Tools {
    pub(in crate::engine) set: SetId,
    /// The agent's number for its report of tools; `None` if it reports none.
    pub(in crate::engine) generation: Option<u64>,
}

/// Why an agent may be forgotten to make room for another one. Its next message would register it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engine) enum Dispensable {
    /// It is lost.
    Lost,
    /// It has never waited for a task or had one, so it may be nothing but a name.
    Idle,
}

impl Agent {
    /// The run that it has, as far as is known here.
    pub(in crate::engine) const fn given(&self) -> Option<(TaskId, Round)> {
        match self.last_run {
            LastRun::Given { task, round, .. } => Some((task, round)),
            LastRun::None | LastRun::Remains(..) => None,
        }
    }

    /// Whether its present task was sent to it more than once.
    pub(in crate::engine) const fn was_told_again(&self) -> bool {
        matches!(self.last_run, LastRun::Given { again: true, .. })
    }

    /// The list in which it is parked, and its number there, while it waits and may get a task.
    pub(in crate::engine) fn parked_as(&self) -> Option<(SetId, u64)> {
        match (self.slot, self.drained, self.tools) {
            (Slot::Parked(_, number), false, Some(tools)) => Some((tools.set, number)),
            _ => None,
        }
    }

    /// The reason why it may be forgotten to make room, if any.
    pub(in crate::engine) const fn why_dispensable(&self) -> Option<Dispensable> {
        match self.slot {
            Slot::Lost => Some(Dispensable::Lost),
            Slot::Free if !self.has_worked => Some(Dispensable::Idle),
            Slot::Free | Slot::Parked(..) | Slot::Busy(_) | Slot::Stray => None,
        }
    }
}

/// The state of a slot for clients.
pub(in crate::engine) const fn state(slot: Slot) -> AgentState {
    match slot {
        Slot::Free | Slot::Parked(..) => AgentState::Free,
        Slot::Busy(_) | Slot::Stray => AgentState::Busy,
        Slot::Lost => AgentState::Lost,
    }
}
