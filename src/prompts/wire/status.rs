//! The state of a prompt master: the answer to `STATUS`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{MessageError, SECONDS_MAX};
use base::Usd;
use base::json::ObjectWriter;

/// The activity of a worker, in the document's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerState {
    /// No activity.
    Idle,
    /// A prompt is on its way to the worker.
    Requesting,
    /// The worker has acknowledged a prompt.
    Working,
    /// The connection is being closed.
    Disconnecting,
}

/// The counts of the four folders, every worker, and the reasons why prompts wait. A master of a former version sends no more than the
/// counts, its time and the workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Number of waiting prompt files.
    pub pending: u64,
    /// Number of prompt files with a worker.
    pub working: u64,
    /// Number of prompt files in `done/`.
    pub done: u64,
    /// Number of prompt files in `failed/`.
    pub failed: u64,
    /// Time since the start of the master.
    #[serde(rename = "running_seconds", with = "number")]
    pub running_for: Duration,
    /// The workers, in the order in which they joined.
    pub workers: Vec<WorkerStatus>,
    /// How fast prompts end.
    #[serde(flatten)]
    pub pace: Pace,
    /// Why no prompt is handed out, if none is.
    #[serde(default)]
    pub paused: Option<String>,
    /// The closed gates, by name, each with the time until it opens.
    #[serde(default, with = "number")]
    pub gates: Vec<(String, Duration)>,
    /// The prompts of workers without a connection, by file, each with the time that is left for the worker to rejoin.
    #[serde(default, with = "number")]
    pub away: Vec<(String, Duration)>,
    /// Number of prompts that have failed because their time was up, under this master.
    #[serde(default)]
    pub timed_out: u64,
    /// Cost of all prompts, as far as it is known.
    #[serde(rename = "cost_usd", default, with = "number")]
    pub cost: Option<Usd>,
    /// The cost at which no more prompts are handed out.
    #[serde(rename = "max_cost_usd", default, with = "number")]
    pub cost_max: Option<Usd>,
}

/// How fast prompts end; each is `None` until enough have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pace {
    /// The usual time of a run.
    #[serde(rename = "median_seconds", with = "number")]
    pub median: Option<Duration>,
    /// Prompts per hour.
    pub per_hour: Option<f64>,
    /// Time until the last prompt is expected to end.
    #[serde(rename = "rest_seconds", with = "number")]
    pub rest: Option<Duration>,
}

/// The state of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// The worker's own name.
    pub id: String,
    /// Activity of the worker.
    pub state: WorkerState,
    /// Name of the file of its prompt.
    pub file: Option<String>,
    /// Time in this state.
    #[serde(rename = "age_seconds", with = "number")]
    pub age: Duration,
    /// Time until a resting worker gets a prompt again.
    #[serde(rename = "resting_seconds", default, with = "number", skip_serializing_if = "Option::is_none")]
    pub resting: Option<Duration>,
    /// Reason of the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Status {
    /// Writes the members of the message.
    pub(super) fn write(&self, out: &mut ObjectWriter<'_>) {
        // Texts and numbers can always be written as JSON.
        let object = serde_json::to_string(self).unwrap_or_default();
        out.members(object.trim_start_matches('{').strip_suffix('}').unwrap_or_default());
    }

    pub(super) fn parse(frame: &[u8]) -> Result<Self, MessageError> {
        serde_json::from_slice(frame).map_err(|error| MessageError::Malformed(format!("STATUS_ACK: {error}")))
    }
}

/// Times and money as numbers: seconds and US dollars.
mod number {
    use super::{Deserialize, Duration, SECONDS_MAX, Serialize, Usd};

    pub(super) trait Number: Sized {
        type Wire: Serialize + for<'de> Deserialize<'de>;
        fn to_wire(&self) -> Self::Wire;
        fn of_wire(wire: Self::Wire) -> Self;
    }

    impl Number for Duration {
        type Wire = f64;

        fn to_wire(&self) -> f64 {
            self.as_secs_f64()
        }

        fn of_wire(seconds: f64) -> Self {
            Self::try_from_secs_f64(seconds.clamp(0.0, 100.0 * SECONDS_MAX)).unwrap_or_default()
        }
    }

    impl Number for Option<Duration> {
        type Wire = Option<f64>;

        fn to_wire(&self) -> Option<f64> {
            self.as_ref().map(Number::to_wire)
        }

        fn of_wire(seconds: Option<f64>) -> Self {
            seconds.map(Number::of_wire)
        }
    }

    impl Number for Vec<(String, Duration)> {
        type Wire = Vec<(String, f64)>;

        fn to_wire(&self) -> Self::Wire {
            self.iter().map(|(name, time)| (name.clone(), time.to_wire())).collect()
        }

        fn of_wire(times: Self::Wire) -> Self {
            times.into_iter().map(|(name, seconds)| (name, Number::of_wire(seconds))).collect()
        }
    }

    impl Number for Option<Usd> {
        type Wire = Option<f64>;

        fn to_wire(&self) -> Option<f64> {
            self.map(Usd::dollars)
        }

        fn of_wire(dollars: Option<f64>) -> Self {
            dollars.and_then(Usd::from_dollars)
        }
    }

    pub(super) fn serialize<T: Number, S: serde::Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        value.to_wire().serialize(to)
    }

    pub(super) fn deserialize<'de, T: Number, D: serde::Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        T::Wire::deserialize(from).map(T::of_wire)
    }
}
