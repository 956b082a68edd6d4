//! `[task_defaults]`: the policy of a submit that does not state its own.

use std::time::Duration;

use super::error::ConfigError;
use super::reader::Reader;
use base::{Policy, PolicySlot};

/// Policy of a submit that does not state its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskDefaults {
    /// The policy of a task that demands nothing.
    pub policy: Policy,
    /// Pause after a defer that names no time.
    pub defer_delay: Duration,
    /// The longest pause between two rounds.
    pub retry_delay_max: Duration,
}

impl TaskDefaults {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        let mut policy = Policy::default();
        for field in Policy::FIELDS.iter().filter(|field| field.has_default) {
            let key = &format!("task_defaults.{}", field.name);
            match field.slot {
                PolicySlot::Priority(of) => *of(&mut policy) = reader.priority(key)?,
                PolicySlot::Count(of) => *of(&mut policy) = reader.count(key)?,
                PolicySlot::Time(of) => *of(&mut policy) = reader.seconds(key)?,
                PolicySlot::Limit(of) => *of(&mut policy) = Policy::limit(reader.seconds(key)?),
                PolicySlot::Truth(of) => *of(&mut policy) = reader.boolean(key)?,
                PolicySlot::Labels(of) => *of(&mut policy) = reader.labels(key)?,
                PolicySlot::Moment(..) => unreachable!("{key}: a moment of one task is no default for all"),
                PolicySlot::Signal(_) => unreachable!("{key}: the signal of a task is that of its tool"),
            }
        }
        Ok(Self {
            policy,
            defer_delay: reader.seconds("task_defaults.DEFER_DELAY")?,
            retry_delay_max: reader.seconds("task_defaults.RETRY_DELAY_MAX")?,
        })
    }
}
