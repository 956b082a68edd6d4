//! The limits and defaults for the content of messages.

use std::sync::Arc;
use std::time::Duration;

use super::json::FieldLimits;
use crate::types::{AddressPolicy, Policy};

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
    pub defaults: Arc<Policy>,
}

impl Rules {
    /// For reading stored records, independent of the present configuration.
    #[must_use]
    pub fn of_history() -> Self {
        let (limits, addresses) = (FieldLimits::TRUSTED, AddressPolicy::everything());
        let wait_max = Duration::ZERO;
        Self { limits, addresses, wait_max, apply_wait_max: wait_max, defaults: Arc::default() }
    }
}
