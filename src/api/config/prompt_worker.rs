//! The section of the prompt worker. `defaults.toml` explains every key.

use std::time::Duration;

use super::error::ConfigError;
use super::reader::{DAY, Reader};

/// The prompt worker, which runs a command for each prompt: `[prompt_worker]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptWorkerSection {
    /// How long the worker tries to reach an absent master; `None` is forever.
    pub patience: Option<Duration>,
    /// Time limit for the answer to a JOIN.
    pub join_timeout: Duration,
    /// The longest pause between two attempts to reach the master.
    pub reconnect_interval_max: Duration,
    /// How long the worker stays away if its command is limited and names no time.
    pub limited_pause: Duration,
    /// The longest pause.
    pub pause_max: Duration,
    /// Number of quick failures in a row after which the worker pauses; 0 for never.
    pub brake_fails: u32,
    /// A run that takes longer is no quick failure.
    pub brake_time: Duration,
    /// Time between SIGTERM and SIGKILL to a command.
    pub kill_interval: Duration,
    /// Time between SIGTERM and SIGKILL to processes that a command has left behind.
    pub straggler_grace: Duration,
}

impl PromptWorkerSection {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            patience: reader.millis_or_forever("prompt_worker.PATIENCE", 0..=DAY)?,
            join_timeout: reader.millis("prompt_worker.JOIN_TIMEOUT", 1..=DAY)?,
            // The first pause is 100 ms.
            reconnect_interval_max: reader.millis("prompt_worker.RECONNECT_INTERVAL_MAX", 100..=DAY)?,
            limited_pause: reader.millis("prompt_worker.LIMITED_PAUSE", 1..=DAY)?,
            pause_max: reader.millis("prompt_worker.PAUSE_MAX", 1..=DAY)?,
            brake_fails: reader.count("prompt_worker.BRAKE_FAILS")?,
            brake_time: reader.millis("prompt_worker.BRAKE_TIME", 0..=DAY)?,
            kill_interval: reader.millis("prompt_worker.KILL_INTERVAL", 1..=DAY)?,
            straggler_grace: reader.millis("prompt_worker.STRAGGLER_GRACE", 0..=DAY)?,
        })
    }
}
