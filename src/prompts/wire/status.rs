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

/// The counts of the four folders, every worker, and the reasons why prompts wait.
#[derive(Clone, Debug, Default, PartialEq)]
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
    pub running_for: Duration,
    /// The workers, in the order in which they joined.
    pub workers: Vec<WorkerStatus>,
    /// How fast prompts end.
    pub pace: Pace,
    /// Why no prompt is handed out, if none is.
    pub paused: Option<String>,
    /// The closed gates, by name, each with the time until it opens.
    pub gates: Vec<(String, Duration)>,
    /// Number of prompts that have failed because their time was up, under this master.
    pub timed_out: u64,
    /// Cost of all prompts, as far as it is known.
    pub cost: Option<Usd>,
    /// The cost at which no more prompts are handed out.
    pub cost_max: Option<Usd>,
    /// The prompts of workers without a connection, by file, each with the time that is left for the worker to rejoin.
    pub away: Vec<(String, Duration)>,
}

/// How fast prompts end; each is `None` until enough have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// The usual time of a run.
    pub median: Option<Duration>,
    /// Prompts per hour.
    pub per_hour: Option<f64>,
    /// Time until the last prompt is expected to end.
    pub rest: Option<Duration>,
}

/// The state of a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerStatus {
    /// The worker's own name.
    pub id: String,
    /// Activity of the worker.
    pub state: WorkerState,
    /// Name of the file of its prompt.
    pub file: Option<String>,
    /// Time in this state.
    pub age: Duration,
    /// Time until a resting worker gets a prompt again.
    pub resting: Option<Duration>,
    /// Reason of the rest.
    pub reason: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Wire<'a> {
    pending: u64,
    working: u64,
    done: u64,
    failed: u64,
    running_seconds: f64,
    #[serde(borrow)]
    workers: Vec<WireWorker<'a>>,
    // A master of a former version does not send the rest.
    #[serde(default)]
    median_seconds: Option<f64>,
    #[serde(default)]
    per_hour: Option<f64>,
    #[serde(default)]
    rest_seconds: Option<f64>,
    #[serde(default)]
    paused: Option<String>,
    #[serde(default)]
    gates: Vec<(String, f64)>,
    #[serde(default)]
    away: Vec<(String, f64)>,
    #[serde(default)]
    timed_out: u64,
    #[serde(default)]
    cost_usd: Option<f64>,
    #[serde(default)]
    max_cost_usd: Option<f64>,
}

#[derive(Serialize, Deserialize)]
struct WireWorker<'a> {
    #[serde(borrow)]
    id: std::borrow::Cow<'a, str>,
    state: WorkerState,
    #[serde(borrow)]
    file: Option<std::borrow::Cow<'a, str>>,
    age_seconds: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resting_seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Status {
    /// Writes the members of the message.
    pub(super) fn write(&self, out: &mut ObjectWriter<'_>) {
        let workers = self.workers.iter().map(|worker| WireWorker {
            id: worker.id.as_str().into(),
            state: worker.state,
            file: worker.file.as_deref().map(Into::into),
            age_seconds: worker.age.as_secs_f64(),
            resting_seconds: worker.resting.as_ref().map(Duration::as_secs_f64),
            reason: worker.reason.clone(),
        });
        let seconds = |times: &[(String, Duration)]| {
            times.iter().map(|(name, time)| (name.clone(), time.as_secs_f64())).collect::<Vec<_>>()
        };
        let wire = Wire {
            pending: self.pending,
            working: self.working,
            done: self.done,
            failed: self.failed,
            running_seconds: self.running_for.as_secs_f64(),
            workers: workers.collect(),
            median_seconds: self.pace.median.map(|time| time.as_secs_f64()),
            per_hour: self.pace.per_hour,
            rest_seconds: self.pace.rest.map(|time| time.as_secs_f64()),
            paused: self.paused.clone(),
            gates: seconds(&self.gates),
            away: seconds(&self.away),
            timed_out: self.timed_out,
            cost_usd: self.cost.map(Usd::dollars),
            max_cost_usd: self.cost_max.map(Usd::dollars),
        };
        // Texts and numbers can always be written as JSON.
        let object = serde_json::to_string(&wire).unwrap_or_default();
        out.members(object.trim_start_matches('{').strip_suffix('}').unwrap_or_default());
    }

    pub(super) fn parse(frame: &[u8]) -> Result<Self, MessageError> {
        let wire: Wire<'_> =
            serde_json::from_slice(frame).map_err(|error| MessageError::Malformed(format!("STATUS_ACK: {error}")))?;
        let workers = wire.workers.into_iter().map(|worker| {
            let (id, file) = (worker.id.into_owned(), worker.file.map(std::borrow::Cow::into_owned));
            let resting = worker.resting_seconds.map(duration);
            let (state, age, reason) = (worker.state, duration(worker.age_seconds), worker.reason);
            WorkerStatus { id, state, file, age, resting, reason }
        });
        let durations = |times: Vec<(String, f64)>| {
            times.into_iter().map(|(name, seconds)| (name, duration(seconds))).collect::<Vec<_>>()
        };
        Ok(Self {
            pending: wire.pending,
            working: wire.working,
            done: wire.done,
            failed: wire.failed,
            running_for: duration(wire.running_seconds),
            workers: workers.collect(),
            pace: Pace {
                median: wire.median_seconds.map(duration),
                per_hour: wire.per_hour,
                rest: wire.rest_seconds.map(duration),
            },
            paused: wire.paused,
            gates: durations(wire.gates),
            away: durations(wire.away),
            timed_out: wire.timed_out,
            cost: wire.cost_usd.and_then(Usd::from_dollars),
            cost_max: wire.max_cost_usd.and_then(Usd::from_dollars),
        })
    }
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.clamp(0.0, 100.0 * SECONDS_MAX)).unwrap_or_default()
}
