//! The settings of a gate: what limits the starts of all tasks that name it.

use std::time::Duration;

use super::{AgentId, Label, Labels, TaskId, Wall};

/// What a start must meet: part of a policy. Tasks with equal needs wait in one line.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirements {
    /// The gates that each start must pass: `__GATE__`.
    pub gates: Labels,
    /// What an agent must have: `__TAGS__`.
    pub tags: Labels,
    /// Whether an agent must be able to hold a lease, so that no other round runs beside this one: `__EXCLUSIVE__`.
    pub exclusive: bool,
}

/// What an agent offers to tasks, beside its tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offer {
    /// What it has: `AGENT_TAGS`.
    pub tags: Labels,
    /// Whether it can hold a lease, as it shows by `__BEAT__` in its heartbeats.
    pub leases: bool,
}

impl Offer {
    /// Whether an agent that offers this can run a task with these needs.
    #[must_use]
    pub fn meets(&self, needs: &Requirements) -> bool {
        needs.tags.are_within(&self.tags) && (self.leases || !needs.exclusive)
    }
}

/// How a gate is set. One that was never set lets everything pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateSettings {
    /// Tasks that may be with agents at once: `__MAX_RUNNING__`.
    pub running_max: Option<u32>,
    /// How many may start in how long: `__MAX_STARTS__` and `__INTERVAL__`.
    pub pace: Option<Pace>,
    /// Nothing passes before: `__CLOSED_UNTIL__`.
    pub closed_until: Option<Wall>,
}

/// So many starts in any stretch of time of this length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// At most so many; at least 1.
    pub starts: u32,
    /// In so long.
    pub interval: Duration,
}

impl Pace {
    /// The moments of as many starts are remembered.
    pub const STARTS_MAX: u32 = 100_000;
}

/// How a gate stands, for those who ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateView {
    /// Its name.
    pub name: Label,
    /// How it is set.
    pub settings: GateSettings,
    /// Whether one more task may pass, else why not.
    pub verdict: GateVerdict,
    /// Tasks with agents that have passed it.
    pub running: u32,
    /// Tasks that wait and must pass it.
    pub waiting: usize,
}

/// Whether one more task may pass a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateVerdict {
    /// It may.
    Open,
    /// As many as may be are with agents.
    Full,
    /// As many as may start in the interval have.
    Paced,
    /// It is closed until then.
    Closed(Wall),
}

/// What holds up a task that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holdup {
    /// Somebody has said so, then.
    Held(Wall),
    /// Its time has not come.
    NotBefore(Wall),
    /// One of its gates.
    Gate(Label, GateVerdict),
    /// The lease of its last run, whose agent is not heard.
    Lease(Wall),
    /// No agent has the tags that it requires.
    NoSuchAgent,
    /// It is exclusive, and no agent that has its tags can hold a lease.
    NoLease,
    /// No agent has its tool; the next one that is free looks for it anew.
    NoTool,
    /// No agent is known to have its tool, and this one, maybe with others, has not answered yet whether it has.
    Look(AgentId),
    /// An agent has its tool, but none that may take it.
    ToolElsewhere,
    /// All agents that could run it are busy.
    Agents {
        /// So many tasks with the same needs come before it.
        before: usize,
        /// Which agents these are.
        servers: Servers,
        /// Whether one of them has no task, and does not ask for one.
        is_one_idle: bool,
        /// One of them that has no other reason to be busy than this.
        blocked: Option<Box<BlockedAgent>>,
    },
}

/// Which agents have the tool of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Servers {
    /// All.
    All,
    /// Those that have told of it.
    Told,
    /// Those that have told of it, and those that do not tell.
    Untold,
}

/// An agent that takes no task, because of what is left of the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedAgent {
    /// Which one.
    pub agent: AgentId,
    /// Its last task.
    pub task: TaskId,
    /// What is left of it.
    pub reason: String,
}
