//! What a submission demands of the life of its task (design, section 5). What is not demanded is for the controller to say.

use std::time::Duration;

use crate::protocol::words;
use crate::types::{Fields, Labels, Scalar, Wall};

/// The policy fields of a submission.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Demands {
    /// Higher goes first, from -100 to 100.
    pub priority: Option<i8>,
    /// The task does not start before.
    pub start_after: Option<Wall>,
    /// Its whole life ends.
    pub end_before: Option<Wall>,
    /// How long one run may take; zero lifts a default.
    pub timeout: Option<Duration>,
    /// How many runs may fail before the task has.
    pub fails_max: Option<u32>,
    /// How many runs may take too long before the task has.
    pub timeouts_max: Option<u32>,
    /// How many agents may be lost before the task is.
    pub losses_max: Option<u32>,
    /// How many runs may defer.
    pub defers_max: Option<u32>,
    /// From the end of a failed round to the next one.
    pub retry_delay: Option<Duration>,
    /// Whether a run fails also when stderr is not empty.
    pub fail_on_stderr: Option<bool>,
    /// Whether each run has ended before the next one starts anywhere.
    pub exclusive: Option<bool>,
    /// The gates that each start must pass.
    pub gates: Labels,
    /// What an agent must have.
    pub tags: Labels,
    /// The same key returns the same task.
    pub submit_key: Option<String>,
    /// Whether the end is pushed until the receiver confirms it.
    pub push_ack: Option<bool>,
}

impl Demands {
    /// Puts them into a submit.
    pub(super) fn write(&self, fields: &mut Fields) {
        let seconds = |time: &Duration| Scalar::from(time.as_secs_f64());
        let moment = |at: &Wall| Scalar::from(at.unix_seconds());
        let labels = |labels: &Labels| (!labels.is_empty()).then(|| Scalar::from(labels.to_string()));
        let demands = [
            (words::PRIORITY, self.priority.map(|priority| i32::from(priority).into())),
            (words::START_AFTER, self.start_after.as_ref().map(moment)),
            (words::END_BEFORE, self.end_before.as_ref().map(moment)),
            (words::TIMEOUT, self.timeout.as_ref().map(seconds)),
            (words::MAX_FAILS, self.fails_max.map(Scalar::from)),
            (words::MAX_TIMEOUTS, self.timeouts_max.map(Scalar::from)),
            (words::MAX_LOSSES, self.losses_max.map(Scalar::from)),
            (words::MAX_DEFERS, self.defers_max.map(Scalar::from)),
            (words::RETRY_DELAY, self.retry_delay.as_ref().map(seconds)),
            (words::FAIL_ON_STDERR, self.fail_on_stderr.map(Scalar::from)),
            (words::EXCLUSIVE, self.exclusive.map(Scalar::from)),
            (words::GATE, labels(&self.gates)),
            (words::TAGS, labels(&self.tags)),
            (words::SUBMIT_KEY, self.submit_key.as_deref().map(Scalar::from)),
            (words::PUSH_ACK, self.push_ack.map(Scalar::from)),
        ];
        for (name, value) in demands {
            if let Some(value) = value {
                fields.set(name, value);
            }
        }
    }
}
