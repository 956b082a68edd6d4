//! `[lists]`: task lists on disk. `defaults.toml` explains every key.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::error::ConfigError;
use super::prompt::{Secret, secret};
use super::reader::{DAY, HOUR, Reader};

/// A message contains both outputs of a task, and the server may hold one message for each worker.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// The server of task lists and its workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListsSection {
    /// The folder with the tasks.
    pub dir: Option<PathBuf>,
    /// The TCP port; 0 takes a free one.
    pub port: u16,
    /// The address that the server listens on.
    pub bind: IpAddr,
    /// The decisions of the server.
    pub server: ListServerSection,
    /// The folder for the outputs of running commands.
    pub work_dir: PathBuf,
    /// How long a worker tries to reach its first server.
    pub patience: Duration,
    /// The longest pause between two attempts to reach the server.
    pub reconnect_interval_max: Duration,
    /// Time between SIGTERM and SIGKILL to a command.
    pub kill_interval: Duration,
    /// Time between SIGTERM and SIGKILL to processes that a command has left behind.
    pub straggler_grace: Duration,
}

/// How a server forms lists, and which workers it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListServerSection {
    /// Tasks of one list: `LIST_TASKS_MAX`.
    pub list_tasks_max: usize,
    /// Seconds that its tasks are expected to run: `LIST_SECONDS_MAX`.
    pub list_seconds_max: u64,
    /// The longest time that a task waits for others in its list: `LIST_AGE_MAX`.
    pub list_age_max: Duration,
    /// Silence after which a worker is lost: `LOST_AFTER`.
    pub lost_after: Duration,
    /// Bytes of one output: `OUTPUT_BYTES_MAX`.
    pub output_bytes_max: usize,
    /// Secret of the workers: `SECRET`.
    pub secret: Option<Secret>,
    /// Pause before a wrong secret is answered: `REFUSAL_PAUSE`.
    pub refusal_pause: Duration,
    /// Maximum number of connections: `WORKERS_MAX`.
    pub workers_max: usize,
}

impl ListsSection {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            dir: reader.path_or_none("lists.DIR")?,
            port: reader.port("lists.PORT")?,
            bind: reader.address("lists.BIND")?,
            server: ListServerSection {
                secret: reader.parsed("lists.SECRET", "\"\" or a text of up to 1024 bytes", secret)?,
                refusal_pause: reader.millis("lists.REFUSAL_PAUSE", 0..=HOUR)?,
                workers_max: reader.size("lists.WORKERS_MAX", 1..=100_000, "workers")?,
                list_tasks_max: reader.size("lists.LIST_TASKS_MAX", 1..=10_000, "tasks")?,
                list_seconds_max: reader.number("lists.LIST_SECONDS_MAX", 1..=365 * 86_400, "seconds")?,
                list_age_max: reader.millis("lists.LIST_AGE_MAX", 0..=DAY)?,
                // Workers report three times within this time.
                lost_after: reader.millis("lists.LOST_AFTER", 100..=DAY)?,
                output_bytes_max: reader.size("lists.OUTPUT_BYTES_MAX", 1024..=OUTPUT_BYTES_MAX, "bytes")?,
            },
            work_dir: reader.path("lists.WORK_DIR")?,
            patience: reader.millis("lists.PATIENCE", 0..=DAY)?,
            // The first pause is 100 ms.
            reconnect_interval_max: reader.millis("lists.RECONNECT_INTERVAL_MAX", 100..=DAY)?,
            kill_interval: reader.millis("lists.KILL_INTERVAL", 1..=DAY)?,
            straggler_grace: reader.millis("lists.STRAGGLER_GRACE", 0..=DAY)?,
        })
    }
}
