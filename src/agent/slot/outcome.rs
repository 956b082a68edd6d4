//! Data of effects, and their results.

use super::orders::Order;
use base::{ExitCode, Mono, Provided, RunResult};

/// How long the run of an exclusive task may continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// From here on the agent ends it, and starts no process of it.
    pub until: Mono,
    /// From here on all remaining processes are ended with SIGKILL, by the guard if the agent does not do it.
    pub kill_at: Mono,
}

/// How an agent leaves its controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// On request, and the controller has confirmed its exit.
    Left,
    /// On request, but the controller does not answer: the next agent of the name has to replace this one.
    Unconfirmed,
    /// The controller rejects it, for this reason.
    Rejected(String),
}

/// Why a run never started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Code from -128 to -131.
    pub exit_code: ExitCode,
    /// The reason, as one sentence.
    pub error: String,
}

/// Why run.sh did not start.
#[derive(Clone, Debug, PartialEq)]
pub enum SpawnFailure {
    /// Another process still has run.sh open for writing (ETXTBSY); a retry may succeed.
    Busy,
    /// A retry would not help.
    Failed(Failure),
    /// A command cannot be started. As in a shell, that is the result of the run.
    Exited(Box<Exited>),
}

/// How run.sh ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Exited {
    /// The result of the run, still without the fields that the slot sets: `reaped`, `by_itself`, `told_to_finish` and `files`.
    pub result: RunResult,
    /// The content of `../provide`; `None` for a task that is not of a step.
    pub provided: Option<ProvideFolder>,
}

/// The folder of a task of a step for what it provides, at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProvideFolder {
    /// These locations.
    Read(Box<Provided>),
    /// The folder cannot be used, for this reason, as one sentence.
    Invalid(String),
}

impl ProvideFolder {
    /// The locations that a run with this result provides: none if it has failed, unless it was told to finish. An invalid
    /// folder makes a run fail.
    pub(super) fn count(self, result: &mut RunResult, told: bool) -> Option<Box<Provided>> {
        if result.exit_code != ExitCode::SUCCESS && !told {
            return None;
        }
        match self {
            Self::Read(provided) => Some(provided),
            Self::Invalid(reason) => {
                result.error = reason;
                if result.exit_code == ExitCode::SUCCESS {
                    result.exit_code = ExitCode::PROVIDE_INVALID;
                }
                None
            }
        }
    }
}

/// The end of a run that gets this order before it starts.
pub(super) fn not_started(order: Order) -> Failure {
    let error = match order {
        Order::Kill => "killed during its preparation",
        Order::Finish => "told to finish during its preparation",
    };
    Failure { exit_code: ExitCode::KILLED_PREPARING, error: error.to_owned() }
}

/// The reported result of a run whose lease has expired, however the run ended.
pub(super) fn lease_over() -> RunResult {
    let error = "its agent could not reach the controller, and its lease expired".to_owned();
    RunResult::of(ExitCode::LEASE_OVER, error)
}
