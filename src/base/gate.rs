//! The settings of a gate, which limits the starts of all tasks that name it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{AgentId, HostAddress, Label, Labels, TaskId, Term, ToolDigest, ToolName, Wall};

/// The requirements for a start: part of a policy. Tasks with equal requirements wait in one line.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirements {
    /// The gates that each start must pass: `__GATE__`.
    pub gates: Labels,
    /// Tags that an agent must have: `__TAGS__`.
    pub tags: Labels,
    /// Whether the agent must be able to hold a lease, so that no other round runs beside this one: `__EXCLUSIVE__`.
    pub exclusive: bool,
    /// Whether the agent must handle files that travel with a task: `__IN__` and `__OUT__`.
    pub files: bool,
    /// Agents that must not get the task again ([`super::TaskRecord::needs`]); empty in a policy.
    pub avoided: BTreeSet<AgentId>,
    /// Machines whose agents must not get it again; `None` is that of the controller. Empty in a policy.
    pub avoided_hosts: BTreeSet<Option<HostAddress>>,
}

impl Requirements {
    /// Whether this agent, on this machine, may get the task, if its offer meets the requirements.
    #[must_use]
    pub fn allow(&self, agent: &AgentId, host: impl FnOnce() -> Option<HostAddress>) -> bool {
        (self.avoided.is_empty() || !self.avoided.contains(agent))
            && (self.avoided_hosts.is_empty() || !self.avoided_hosts.contains(&host()))
    }

    /// Parts of these requirements, each contained in the next one, with the reason that holds up a task if no agent meets the part.
    #[must_use]
    pub fn parts(&self) -> [(Self, Holdup); 2] {
        let plain = Self { exclusive: false, files: false, ..self.clone() };
        [(plain, Holdup::NoSuchAgent), (self.clone(), Holdup::OnlySimpleAgents)]
    }
}

/// What an agent offers to tasks besides its tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offer {
    /// The tags of the agent: `AGENT_TAGS`.
    pub tags: Labels,
    /// Whether it is a full agent, which can hold a lease and handles files that travel. `__WIRE__` in its heartbeats shows it.
    pub is_full: bool,
}

impl Offer {
    /// Whether an agent with this offer can run a task with these requirements.
    #[must_use]
    pub fn meets(&self, needs: &Requirements) -> bool {
        needs.tags.are_within(&self.tags) && (self.is_full || !(needs.exclusive || needs.files))
    }
}

/// The settings of a gate. A gate that was never set lets every task pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateSettings {
    /// Number of tasks that agents may run at once: `__MAX_RUNNING__`.
    pub running_max: Option<u32>,
    /// Number of starts per interval: `__MAX_STARTS__` and `__INTERVAL__`.
    pub pace: Option<Pace>,
    /// No start before this moment: `__CLOSED_UNTIL__`.
    pub closed_until: Option<Wall>,
}

/// A number of starts in any stretch of time of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Number of starts, at least 1.
    pub starts: u32,
    /// Length of the stretch.
    pub interval: Duration,
}

impl Pace {
    /// Largest number of starts: the moments of that many are remembered.
    pub const STARTS_MAX: u32 = 100_000;
}

/// The moment until which a gate is closed if it must be opened explicitly, in the year 2255: the latest at which a double
/// still represents microseconds, so that each language reads the same number.
pub const UNTIL_OPENED: Wall = Wall::from_micros(9_000_000_000_000_000);

/// The state of a gate, for a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateView {
    /// Name of the gate.
    pub name: Label,
    /// Settings of the gate.
    pub settings: GateSettings,
    /// Whether one more task may pass; otherwise the reason.
    pub verdict: GateVerdict,
    /// Tasks that have passed the gate and are with agents.
    pub running: u32,
    /// Waiting tasks that must pass the gate.
    pub waiting: usize,
}

/// Whether one more task may pass a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateVerdict {
    /// One more may pass.
    Open,
    /// The maximum number of tasks is with agents.
    Full,
    /// The maximum number of starts in the interval is reached.
    Paced,
    /// The gate is closed until this moment.
    Closed(Wall),
}

/// Why a waiting task does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holdup {
    /// A client has paused the service, until this moment.
    Paused(Wall),
    /// A client holds it, since this moment.
    Held(Wall),
    /// This term of `__AFTER__`, and the number of all that have not been met.
    After(Term, usize),
    /// Its start is not allowed before this moment.
    NotBefore(Wall),
    /// One of its gates, and the gate's verdict.
    Gate(Label, GateVerdict),
    /// The lease of its last run, whose agent is silent. It ends at this moment.
    Lease(Wall),
    /// The controller has started, and gives agents until this moment to name the task.
    Claims(Wall),
    /// Another controller has the agents, in this sentence.
    Outdated(String),
    /// Its agent has been silent since this moment, and may come back with the run. Until the second moment, if there is one, the
    /// controller suspects itself; otherwise another agent may take the task, and this is why none does.
    Silent {
        /// When the agent was taken for lost.
        since: Wall,
        /// The end of the suspicion.
        until: Option<Wall>,
        /// What holds the next round up.
        other: Box<Holdup>,
    },
    /// No agent has the required tags.
    NoSuchAgent,
    /// It needs a full agent, and those that could take it otherwise are simple ones.
    OnlySimpleAgents,
    /// No agent has its tool; the next free agent looks for it again.
    NoTool,
    /// All agents here that could run it were unfit for it, but for these, which are drained.
    Unfit(Vec<AgentId>),
    /// The agents that could run it are drained. These are some of them.
    Drained(Vec<AgentId>),
    /// An agent has its tool, but may not run the task.
    ToolElsewhere,
    /// Its agent fetches this version of its tool from the controller.
    Fetching {
        /// The version.
        digest: ToolDigest,
        /// Bytes that the agent has.
        offset: u64,
        /// Bytes of the version.
        total: u64,
    },
    /// Each agent that could run it, or a child of it, runs a task that waits for children of its own.
    HeldSlots {
        /// The agents.
        agents: Vec<AgentId>,
        /// Whether a child of the task is meant.
        is_parent: bool,
    },
    /// All agents that could run it are busy.
    Agents {
        /// Number of tasks with the same requirements before it.
        before: usize,
        /// Which agents these are.
        servers: Servers,
        /// Whether one of them has no task and does not ask for one.
        is_one_idle: bool,
        /// One of them that is busy only because of what its last task left behind.
        blocked: Option<Box<BlockedAgent>>,
    },
}

impl Holdup {
    /// Of a task whose tool, or built-in operation, no present agent has.
    #[must_use]
    pub fn without(tool: &ToolName) -> Self {
        if tool.is_archive() { Self::NoTool } else { Self::OnlySimpleAgents }
    }
}

/// The agents that have the tool of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Servers {
    /// All agents.
    All,
    /// The agents that have reported the tool.
    Told,
    /// The agents that have reported the tool, and those that report no tools.
    Untold,
}

/// An agent that takes no task because its last task left something behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedAgent {
    /// Id of the agent.
    pub agent: AgentId,
    /// Its last task.
    pub task: TaskId,
    /// The unmet condition, as one sentence.
    pub reason: String,
}
