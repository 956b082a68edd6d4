//! What a submitter demands of the life of a task (design, section 5).

use std::time::Duration;

use super::{Needs, Wall};

/// The policy of one task. Tasks that demand nothing share the defaults of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// It does not start before: `__START_AFTER__`.
    pub start_after: Option<Wall>,
    /// Its whole life ends: `__END_BEFORE__`.
    pub end_before: Option<Wall>,
    /// How long one run may take: `__TIMEOUT__`.
    pub timeout: Option<Duration>,
    /// How many runs may fail before the task has: `__MAX_FAILS__`.
    pub fails_max: u32,
    /// How many runs may take too long before the task has: `__MAX_TIMEOUTS__`.
    pub timeouts_max: u32,
    /// How many agents may be lost before the task is: `__MAX_LOSSES__`.
    pub losses_max: u32,
    /// How many runs may defer; one more is a failure: `__MAX_DEFERS__`.
    pub defers_max: u32,
    /// From the end of a round to the start of the next; doubles each time: `__RETRY_DELAY__`.
    pub retry_delay: Duration,
    /// Whether a run fails also when stderr is not empty: `__FAIL_ON_STDERR__`.
    pub fail_on_stderr: bool,
    /// Higher goes first: `__PRIORITY__`, from -100 to 100.
    pub priority: i8,
    /// What a start must meet beside the time: `__GATE__`, `__TAGS__` and `__EXCLUSIVE__`.
    pub needs: Needs,
    /// Whether FINISHED is pushed until the receiver confirms it: `__PUSH_ACK__`.
    pub push_ack: bool,
}

/// How often each of the budgets of a [`Policy`] was drawn on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs that failed: `__FAILS__`.
    pub fails: u32,
    /// Runs that took too long: `__TIMEOUTS__`.
    pub timeouts: u32,
    /// Agents that were lost: `__LOSSES__`.
    pub losses: u32,
    /// Runs that deferred: `__DEFERS__`.
    pub defers: u32,
}
