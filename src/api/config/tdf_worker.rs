//! `[tdf_worker]`: the settings of `llts tdf worker` that `worker.cfg` lacks, as the original reads the same file.

use std::time::Duration;

use super::error::ConfigError;
use super::reader::{DAY, Reader};

/// Redis does not accept longer texts.
const OUTPUT_BYTES_MAX: u64 = 512 << 20;

/// The programs that are run for a TDF namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TdfWorkerSection {
    /// Time between SIGTERM and SIGKILL to a program.
    pub kill_interval: Duration,
    /// Time between SIGTERM and SIGKILL to processes that a program has left behind.
    pub straggler_grace: Duration,
    /// Bytes of stdout, and of stderr, that are reported.
    pub output_bytes_max: u64,
}

impl TdfWorkerSection {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            kill_interval: reader.millis("tdf_worker.KILL_INTERVAL", 1..=DAY)?,
            straggler_grace: reader.millis("tdf_worker.STRAGGLER_GRACE", 0..=DAY)?,
            output_bytes_max: reader.number("tdf_worker.OUTPUT_BYTES_MAX", 1024..=OUTPUT_BYTES_MAX, "bytes")?,
        })
    }
}
