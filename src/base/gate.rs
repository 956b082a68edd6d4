//! Gates, which limit the starts of the tasks that name them, and the reasons why a task waits.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{AgentId, HostAddress, Label, Labels, TaskId, Term, ToolDigest, ToolName, Wall};

/// The requirements for a start: part of a policy. Tasks with equal requirements wait in the same queue.
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
    /// Agents that must not get the task again ([`super::TaskRecord::needs`]). Empty in a policy.
    pub avoided: BTreeSet<AgentId>,
    /// Machines whose agents must not get it again; `None` is the controller's machine. Empty in a policy.
    pub avoided_hosts: BTreeSet<Option<HostAddress>>,
}

impl Requirements {
    /// Whether this agent on this machine may get the task, provided that its offer meets the requirements.
    #[must_use]
    pub fn allow(&self, agent: &AgentId, host: impl FnOnce() -> Option<HostAddress>) -> bool {
        (self.avoided.is_empty() || !self.avoided.contains(agent))
            && (self.avoided_hosts.is_empty() || !self.avoided_hosts.contains(&host()))
    }

    /// Parts of these requirements, each contained in the next, with the reason why a task waits if no agent meets that
    /// part.
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
    /// Whether it is a full agent, which can hold a lease and handles files that travel with a task. `__WIRE__` in its
    /// heartbeats shows it.
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

/// A maximum number of starts in any period of the given length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Number of starts, at least 1.
    pub starts: u32,
    /// Length of the period.
    pub interval: Duration,
}

impl Pace {
    /// Largest number of starts, because the moment of each is remembered.
    pub const STARTS_MAX: u32 = 100_000;
}

/// The moment until which a gate is closed if it must be opened explicitly, in the year 2255. It is about the latest
/// moment whose microseconds a double represents exactly, so that every language reads the same number.
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
    /// It must not start before this moment.
    NotBefore(Wall),
    /// One of its gates, and the gate's verdict.
    Gate(Label, GateVerdict),
    /// The lease of its last run, whose agent is silent. The lease ends at this moment.
    Lease(Wall),
    /// The controller has just started, and gives agents until this moment to claim the task.
    Claims(Wall),
    /// Another controller has the agents, as this sentence says.
    Outdated(String),
    /// Its dispatch is to be stored first, and the store cannot be written, for this reason.
    Store(String),
    /// Its agent is silent, but may come back with the run. Until `until`, the controller suspects that it is itself
    /// cut off. Otherwise another agent may take the task, and `other` says why none does.
    Silent {
        /// When the agent was taken for lost.
        since: Wall,
        /// The end of the suspicion.
        until: Option<Wall>,
        /// The reason why the next round does not start.
        other: Box<Holdup>,
    },
    /// No agent has the required tags.
    NoSuchAgent,
    /// It needs a full agent, and all agents that could take it otherwise are simple.
    OnlySimpleAgents,
    /// No agent has its tool; the next free agent looks for it again.
    NoTool,
    /// All agents that could run it were unfit for it, except these, which are drained.
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
        /// Whether the agents are needed by a child of the task, not by the task itself.
        is_parent: bool,
    },
    /// All agents that could run it are busy.
    Agents {
        /// Number of tasks with the same requirements before it.
        before: usize,
        /// The kind of agents that could run it.
        servers: Servers,
        /// Whether one of them is idle but does not ask for a task.
        is_one_idle: bool,
        /// One of them that is busy only because of the remains of its last task.
        blocked: Option<Box<BlockedAgent>>,
    },
}

impl Holdup {
    /// For a task whose tool or built-in operation no connected agent has.
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
    /// The agents that have reported the tool, and those that report no tools at all.
    Untold,
}

/// An agent that takes no task because its last task has left something behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedAgent {
    /// Id of the agent.
    pub agent: AgentId,
    /// Its last task.
    pub task: TaskId,
    /// The unmet condition, as one sentence.
    pub reason: String,
}
