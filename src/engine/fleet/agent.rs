//! The data about one agent. The registry of agents, and the order in which they wait, are [`crate::fleet`]'s concern.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::queue::tool_sets::SetId;
use crate::turn::effect::{ConnectionId, Ticket};
use api::wire::requests::agents::AgentState;
use api::wire::requests::apply::ListTerms;
use api::wire::requests::heartbeat::OwnVersions;
use api::wire::version::Version;
use base::{AgentId, HostAddress, Mono, Offer, Requirements, Round, Session, Skew, TaskId, ToolName, Wall};

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
/// | any | Lost | silent for its loss time (`AGENT_LOST_AFTER`, `__LOST_AFTER__`) |
/// | Lost | Free, Stray | it sends a message |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    Free,
    /// Waits for a task, which will be the answer to this request. The number orders agents by waiting time.
    Parked(Ticket, u64),
    Busy(TaskId),
    Stray,
    Lost,
}

impl Slot {
    /// The task that the agent has.
    pub(crate) const fn task(self) -> Option<TaskId> {
        if let Self::Busy(task) = self { Some(task) } else { None }
    }
}

/// The controller's knowledge of the process behind an agent id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// Its task was stored by an earlier controller; no message has arrived since.
    Restored,
    /// The agent has sent a message since then, but has not mentioned the task yet.
    Returned(Mono),
    /// This session of it has sent messages.
    Session(Session),
}

impl Liveness {
    pub(crate) fn session(self) -> Session {
        match self {
            Self::Session(session) => session,
            Self::Restored | Self::Returned(_) => Session::default(),
        }
    }
}

/// An agent.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    pub(crate) slot: Slot,
    /// Its list, which has the task of its slot and those behind it.
    pub(crate) list: Option<Box<List>>,
    pub(crate) last_run: LastRun,
    /// Whether it has ever waited for a task or had one.
    pub(crate) has_worked: bool,
    /// Its place among the agents that may make room for others.
    pub(crate) dispensable: Option<(Dispensable, u64)>,
    pub(crate) contact: Contact,
    /// Its reports about itself and its machine.
    pub(crate) about: About,
    /// The offer in its heartbeats; empty before the first one.
    pub(crate) offer: Offer,
    /// Its tools, known from its first message on ([`super::tools`]).
    pub(crate) tools: Option<Tools>,
    /// Whether it gets no more tasks.
    pub(crate) drained: bool,
    /// The connection that parked it last.
    pub(crate) connection: Option<ConnectionId>,
}

/// The run that an agent got last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum LastRun {
    /// There is none, or its end is reported, or the agent has asked for another one.
    #[default]
    None,
    /// The agent has it, as far as is known here.
    Given {
        task: TaskId,
        round: Round,
        /// Whether the task was sent more than once.
        again: bool,
    },
    /// Its end is reported, but its remains occupy the slot for this reason. So the agent did not ask for another task with that
    /// report.
    Remains(TaskId, String),
}

/// When and how an agent was heard.
#[derive(Clone, Debug)]
pub(crate) struct Contact {
    pub(crate) liveness: Liveness,
    pub(crate) heard: Mono,
    pub(crate) heard_wall: Wall,
    /// The last silence that was too long for a late heartbeat, from the message before it to the one after it.
    pub(crate) silence: Option<(Mono, Mono)>,
    /// The number of the newest heartbeat, if heartbeats have numbers, and the connection that brought it.
    pub(crate) newest_beat: Option<(u32, ConnectionId)>,
}

/// The reports of an agent about itself and its machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    pub(crate) ip: Option<String>,
    /// The address of its machine, if that is not the machine of the controller.
    pub(crate) host: Option<HostAddress>,
    pub(crate) version: Option<Version>,
    /// Versions of tools in its own folder, which take precedence over those of the controller.
    pub(crate) own_versions: Option<Arc<OwnVersions>>,
    /// The tools that stay at it: each runs, free or with the agent's task.
    pub(crate) warm: BTreeSet<ToolName>,
    /// The time that it needs to end a run.
    pub(crate) kill_budget: Option<Duration>,
    /// How much its clock differs from that of the controller.
    pub(crate) skew: Option<Skew>,
}

/// The list of an agent.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) terms: ListTerms,
    /// The place of the agent's task in it.
    pub(crate) running: u32,
    /// The tasks behind that one, each with its place.
    pub(crate) ahead: VecDeque<(u32, TaskId)>,
}

impl List {
    /// The tasks behind the agent's task.
    pub(crate) fn ahead(&self) -> impl Iterator<Item = TaskId> {
        self.ahead.iter().map(|(_, task)| *task)
    }
}

/// The tools of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tools {
    pub(crate) set: SetId,
    /// The session that reported them, with its number for the report; `None` if it has none.
    pub(crate) generation: Option<(Session, u64)>,
}

/// Why an agent may be forgotten to make room for another one. Its next message would register it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dispensable {
    /// It is lost.
    Lost,
    /// It has never waited for a task or had one, so it may be a mere name.
    Idle,
}

impl Agent {
    /// The run that the agent has, as far as is known here.
    pub(crate) const fn given(&self) -> Option<(TaskId, Round)> {
        match self.last_run {
            LastRun::Given { task, round, .. } => Some((task, round)),
            LastRun::None | LastRun::Remains(..) => None,
        }
    }

    /// Whether its present task was sent to it more than once.
    pub(crate) const fn was_told_again(&self) -> bool {
        matches!(self.last_run, LastRun::Given { again: true, .. })
    }

    /// Whether the agent meets these requirements and has the tool according to `has`; `id` is its own.
    pub(crate) fn can_run(&self, id: &AgentId, needs: &Requirements, has: impl Fn(SetId) -> bool) -> bool {
        let is_allowed = needs.allow(id, || self.about.host);
        is_allowed && self.offer.meets(needs) && self.tools.is_none_or(|tools| has(tools.set))
    }

    /// The tool set and the number under which it is parked, while it waits and may get a task.
    pub(crate) fn parked_as(&self) -> Option<(SetId, u64)> {
        match (self.slot, self.drained, self.tools) {
            (Slot::Parked(_, number), false, Some(tools)) => Some((tools.set, number)),
            _ => None,
        }
    }

    /// The reason why the agent may be forgotten to make room, if any.
    pub(crate) const fn why_dispensable(&self) -> Option<Dispensable> {
        match self.slot {
            Slot::Lost => Some(Dispensable::Lost),
            Slot::Free if !self.has_worked => Some(Dispensable::Idle),
            Slot::Free | Slot::Parked(..) | Slot::Busy(_) | Slot::Stray => None,
        }
    }
}

/// The state of a slot for clients.
pub(crate) const fn state(slot: Slot) -> AgentState {
    match slot {
        Slot::Free | Slot::Parked(..) => AgentState::Free,
        Slot::Busy(_) | Slot::Stray => AgentState::Busy,
        Slot::Lost => AgentState::Lost,
    }
}
