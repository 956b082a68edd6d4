//! Reads the document of a step graph: from JSON or TOML to steps with ports.
//!
//! | key | value |
//! |---|---|
//! | `name` | a text for people |
//! | `policy` | fields of a submit for the tasks of all steps |
//! | `steps` | a table of steps by their names |
//!
//! | key of a step | value |
//! |---|---|
//! | `operation`, `command` | its tool, or the program and its arguments; a step without them is an exchange |
//! | `parameters` | fields for its tasks |
//! | `policy` | fields of a submit, over those of the graph |
//! | `inputs`, `sub_inputs` | the outputs that each port takes: a list of `step.port` |
//! | `outputs` | the names of its outputs; `["out"]` without it |
//! | `tasks` | the number of its main tasks, 1 by default; or a main input, for one task per partition |
//! | `prepare` | the number of tasks for each sub input, 1 by default |
//! | `propagate` | false: it does not end early when all its downstream steps do |
//!
//! This module checks one step at a time. `engine::graph` checks that the steps fit together.

mod accepted;
mod document;
mod entry;
mod fields;
mod node;
mod step;
mod table;

#[cfg(test)]
mod tests;

use super::rules::DefaultPolicies;
use base::json::FieldLimits;
use base::{GraphLimits, GraphStatus, PortActivity, StepState};

pub use accepted::{AcceptedGraph, GraphRow, StepTerms, StoredGraph, decode};
pub use document::{Document, check_bytes};
pub use entry::EntryCodec;
pub use step::{Port, Source, StepDocument, TaskCount, Work};

/// The limits and defaults for documents.
#[derive(Clone, Debug)]
pub struct GraphRules {
    /// Limits of a graph.
    pub graph: GraphLimits,
    /// Limits of the fields of its tasks.
    pub fields: FieldLimits,
    /// The default policy of tasks.
    pub defaults: DefaultPolicies,
}

/// The word for the status of a graph: the value of `__STATUS__`.
#[must_use]
pub const fn status(status: GraphStatus) -> &'static str {
    match status {
        GraphStatus::Running => "RUNNING",
        GraphStatus::Succeeded => "SUCCEEDED",
        GraphStatus::Failed => "FAILED",
        GraphStatus::Killed => "KILLED",
    }
}

/// The word for the state of a step: the value of `__STATE__`.
#[must_use]
pub const fn state(state: StepState) -> &'static str {
    match state {
        StepState::Created => "CREATED",
        StepState::Activated => "ACTIVATED",
        StepState::Preparing => "PREPARING",
        StepState::Prepared => "PREPARED",
        StepState::Running => "RUNNING",
        StepState::Completing => "COMPLETING",
        StepState::Completed => "COMPLETED",
        StepState::Deactivated => "DEACTIVATED",
    }
}

/// The word for the activity of a port.
#[must_use]
pub const fn activity(activity: PortActivity) -> &'static str {
    match activity {
        PortActivity::Inactive => "inactive",
        PortActivity::Active => "active",
        PortActivity::Completed => "completed",
    }
}
