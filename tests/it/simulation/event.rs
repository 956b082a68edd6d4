//! The events of a simulation, and the defects that a test may put into one.

use base::TaskId;

use crate::simulation::client::Order;
use crate::simulation::plan::Fault;
use crate::simulation::tool::ToolEvent;
use crate::simulation::tools::Change;

/// A defect that a test puts in on purpose, to see the checks find it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Defect {
    /// A row that was committed is gone after a restart.
    LostRow,
    /// The report of an old round is taken for one of the present round.
    OldRoundAsNew,
    /// The store says that it has committed before it has.
    LyingStore,
    /// A new controller uses the numbers of pushes again that were not stored.
    UsedNumbers,
    /// That a run had begun is forgotten with a restart.
    ForgottenProgress,
    /// Agents say that their runs have lasted longer than they have.
    HastyAgents,
    /// FINISHED is pushed twice.
    DoublePush,
    /// A job reaches two agents.
    DoubleJob,
    /// A confirmed kill is forgotten with the next restart.
    ForgottenKill,
    /// How gates are set is forgotten with a restart.
    ForgottenGates,
    /// Which agents are drained is forgotten with a restart.
    ForgottenDrains,
    /// The counters of the budgets begin anew with a restart.
    ForgottenCounts,
    /// The engine's wall clock is ahead.
    EarlyStart,
    /// The priorities are turned round with a restart.
    TurnedPriorities,
    /// A submit that is repeated has another key.
    NewKeys,
    /// No push ever arrives.
    DeafReceiver,
    /// A run that has no time left is not told so.
    EndlessRuns,
    /// Agents tell only what they had at their start.
    UntoldTools,
    /// Agents do not hear that a run is exclusive.
    ForgottenLeases,
    /// The tasks in the lists of agents wait after a restart.
    ForgottenLists,
    /// Agents that let a list go say that its last task that they started has not started.
    ModestLists,
    /// An agent that is stopped has no guard.
    NoGuards,
    /// The store takes the commits of a controller that does not lead any more.
    TwoLeaders,
    /// A controller that may not lead any more is sure that it knows all tasks.
    SureLeaders,
}

pub(crate) enum Event {
    /// A message of an agent reaches the controller's machine.
    Up {
        connection: usize,
        body: Vec<u8>,
    },
    /// An answer reaches the agent's machine.
    Down {
        connection: usize,
        body: Vec<u8>,
    },
    Published {
        agent: usize,
        life: u32,
        frame: Vec<u8>,
    },
    Connected {
        agent: usize,
        attempt: u32,
    },
    Asked {
        request: usize,
        attempt: u32,
    },
    Answered {
        request: usize,
        attempt: u32,
        body: Vec<u8>,
    },
    GiveUp {
        request: usize,
        attempt: u32,
    },
    /// A tool comes to an agent or is gone.
    Tools(Change),
    /// An agent notices that.
    Noticed {
        agent: usize,
    },
    Submit {
        plan: usize,
        parent: Option<TaskId>,
    },
    /// A client or an operator orders something.
    Order(Order),
    /// The submit of a graph.
    Graph {
        plan: usize,
    },
    /// A receiver's confirmation of a push reaches the controller.
    Confirmed {
        task: TaskId,
        seq: u32,
    },
    ControllerWakes,
    /// The controller that was deposed wakes up.
    DeposedWakes,
    DeposedEnds,
    /// The store has committed for this life of the controller.
    Committed {
        life: u64,
    },
    ControllerStarts,
    AgentWakes {
        agent: usize,
    },
    AgentStarts {
        agent: usize,
    },
    AgentResumes {
        agent: usize,
    },
    GuardWakes {
        agent: usize,
    },
    Tool {
        agent: usize,
        run: u64,
        event: ToolEvent,
    },
    Fault(Fault),
}
