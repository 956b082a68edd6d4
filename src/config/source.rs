//! `[source]`: programs that are fetched.

use std::time::Duration;

use super::error::ConfigError;
use super::reader::Reader;

/// Milliseconds: a longer time is a slip.
const DAY: u64 = 86_400_000;

/// How programs are fetched from their sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceSection {
    /// For all of one fetch.
    pub fetch_timeout: Duration,
    /// Without a byte from the other side.
    pub silence_timeout: Duration,
}

impl SourceSection {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            fetch_timeout: reader.millis("source.FETCH_TIMEOUT", 1..=DAY)?,
            silence_timeout: reader.millis("source.SILENCE_TIMEOUT", 1..=DAY)?,
        })
    }
}
