//! The state of a prompt master: the answer to `STATUS`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{MessageError, SECONDS_MAX};
use crate::protocol::json::ObjectWriter;

/// The activity of a worker, in the document's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerState {
    /// No activity.
    Idle,
    /// A prompt is on its way to it.
    Requesting,
    /// It has acknowledged a prompt.
    Working,
    /// Its connection is being closed.
    Disconnecting,
}

/// The counts of the four folders, and every worker.
#[derive(Clone, Debug, PartialEq)]
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
}

/// One worker.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerStatus {
    /// The name that it gives itself.
    pub id: String,
    /// Its activity.
    pub state: WorkerState,
    /// The name of its file, if it has one.
    pub file: Option<String>,
    /// Time in this state.
    pub age: Duration,
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
}

#[derive(Serialize, Deserialize)]
struct WireWorker<'a> {
    #[serde(borrow)]
    id: std::borrow::Cow<'a, str>,
    state: WorkerState,
    #[serde(borrow)]
    file: Option<std::borrow::Cow<'a, str>>,
    age_seconds: f64,
}

impl Status {
    /// Writes the members of the message.
    pub(super) fn write(&self, out: &mut ObjectWriter<'_>) {
        let workers = self.workers.iter().map(|worker| WireWorker {
            id: worker.id.as_str().into(),
            state: worker.state,
            file: worker.file.as_deref().map(Into::into),
            age_seconds: worker.age.as_secs_f64(),
        });
        let wire = Wire {
            pending: self.pending,
            working: self.working,
            done: self.done,
            failed: self.failed,
            running_seconds: self.running_for.as_secs_f64(),
            workers: workers.collect(),
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
            WorkerStatus { id, state: worker.state, file, age: duration(worker.age_seconds) }
        });
        Ok(Self {
            pending: wire.pending,
            working: wire.working,
            done: wire.done,
            failed: wire.failed,
            running_for: duration(wire.running_seconds),
            workers: workers.collect(),
        })
    }
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.clamp(0.0, 100.0 * SECONDS_MAX)).unwrap_or_default()
}
