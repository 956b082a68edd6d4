//! What a message may hold.

use std::sync::Arc;
use std::time::Duration;

use super::json::FieldLimits;
use crate::types::{AddressPolicy, Policy};

/// What a message may hold.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Sizes.
    pub limits: FieldLimits,
    /// Where states may be pushed to.
    pub addresses: AddressPolicy,
    /// The longest that a request may be parked: `WAIT_MAX`.
    pub wait_max: Duration,
    /// The same for an agent that waits for a task.
    pub apply_wait_max: Duration,
    /// The policy of a task that does not say otherwise: `[task_defaults]`.
    pub defaults: Arc<Policy>,
}

impl Rules {
    /// For records that are only to be read, whatever the present configuration allows.
    #[must_use]
    pub fn of_history() -> Self {
        let (limits, addresses) = (FieldLimits::TRUSTED, AddressPolicy::everything());
        let wait_max = Duration::ZERO;
        Self { limits, addresses, wait_max, apply_wait_max: wait_max, defaults: Arc::default() }
    }
}
