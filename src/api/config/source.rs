//! `[source]`: programs that are fetched.

use std::time::Duration;

use super::error::ConfigError;
use super::reader::{DAY, Reader};
use base::{AllowedSources, SourceScheme};

/// How programs are fetched from their sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSection {
    /// Time limit for a whole fetch.
    pub fetch_timeout: Duration,
    /// The longest time without a byte from the other side.
    pub silence_timeout: Duration,
    /// How long an agent assumes that a source has not changed.
    pub recheck_interval: Duration,
    /// The sources that a submit may name.
    pub allowed: AllowedSources,
}

impl SourceSection {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            fetch_timeout: reader.millis("source.FETCH_TIMEOUT", 1..=DAY)?,
            silence_timeout: reader.millis("source.SILENCE_TIMEOUT", 1..=DAY)?,
            recheck_interval: reader.millis("source.RECHECK_INTERVAL", 0..=DAY)?,
            allowed: AllowedSources {
                schemes: reader.each(
                    "source.ALLOW_SCHEMES",
                    "a list of \"http\", \"https\" and \"rsync\"",
                    SourceScheme::parse,
                )?,
                hosts: reader.each(
                    "source.ALLOW_HOSTS",
                    "a list of host names, \"*.example.org\", \"*\" for every public host, and networks such as \"10.0.0.0/8\"",
                    |text| text.parse().ok(),
                )?,
            },
        })
    }
}
