//! The limits and defaults for the content of messages.

use std::sync::Arc;
use std::time::Duration;

use base::json::FieldLimits;
use base::{AddressPolicy, AllowedSources, GraphLimits, Policy, ToolName};

/// The limits and defaults for the content of messages.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Limits of sizes.
    pub limits: FieldLimits,
    /// The permitted push addresses.
    pub addresses: AddressPolicy,
    /// The longest time for which a request may be parked: `WAIT_MAX`.
    pub wait_max: Duration,
    /// The longest time for which the APPLY of an agent may be parked.
    pub apply_wait_max: Duration,
    /// The default policy of tasks: `[task_defaults]`.
    pub defaults: DefaultPolicies,
    /// Limits of submits.
    pub submits: SubmitLimits,
    /// Limits of step graphs.
    pub graphs: GraphLimits,
    /// The sources of programs that agents may fetch: `[source] ALLOW_SCHEMES` and `ALLOW_HOSTS`.
    pub sources: AllowedSources,
}

/// The limits of submits.
#[derive(Clone, Copy, Debug)]
pub struct SubmitLimits {
    /// Maximum bytes of a submit: `SUBMIT_BYTES_MAX`.
    pub bytes_max: usize,
    /// Maximum tasks of one submit: `SUBMIT_MANY_MAX`.
    pub tasks_max: usize,
    /// Maximum terms of one task: `AFTER_TERMS_MAX`.
    pub terms_max: usize,
}

impl SubmitLimits {
    /// The default values of the configuration.
    pub const DEFAULT: Self = Self { bytes_max: 4 << 20, tasks_max: 1000, terms_max: 1000 };
}

/// The default policies of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefaultPolicies {
    /// Of a tool.
    pub tool: Arc<Policy>,
    /// Of a command. A program that does not know llts means something else by exit code 75, so a command only defers if its
    /// submit names `__MAX_DEFERS__`.
    pub command: Arc<Policy>,
}

impl DefaultPolicies {
    /// The default policy of a task with this operation.
    #[must_use]
    pub fn of(&self, operation: &ToolName) -> &Arc<Policy> {
        if operation.is_command() { &self.command } else { &self.tool }
    }
}

impl From<Policy> for DefaultPolicies {
    fn from(policy: Policy) -> Self {
        let command = Arc::new(Policy { defers_max: 0, ..policy.clone() });
        Self { tool: Arc::new(policy), command }
    }
}

impl Rules {
    /// Rules for reading stored records, independent of the present configuration.
    #[must_use]
    pub fn of_history() -> Self {
        let (limits, addresses) = (FieldLimits::TRUSTED, AddressPolicy::everything());
        let wait_max = Duration::ZERO;
        Self {
            limits,
            addresses,
            wait_max,
            apply_wait_max: wait_max,
            defaults: DefaultPolicies::default(),
            submits: SubmitLimits::DEFAULT,
            graphs: GraphLimits::DEFAULT,
            sources: AllowedSources::default(),
        }
    }
}
