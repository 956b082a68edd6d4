//! The section for logs: where, how much, and what a line begins with.

use std::path::PathBuf;

use log::LevelFilter;

use super::error::ConfigError;
use super::reader::Reader;
use crate::types::AgentId;

/// Bytes that a log file must be allowed at the least: room for the longest line.
const FILE_BYTES_MIN: u64 = 16_384;

/// What each process logs, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSection {
    /// The folder of the log files.
    pub dir: PathBuf,
    /// The file name of the controller's log.
    pub controller_name: PathBuf,
    /// The file name of an agent's log, without its id.
    pub agent_name: PathBuf,
    /// Whether a configuration or the environment has set that name.
    pub agent_name_is_set: bool,
    /// The least severe level that is logged.
    pub level: LevelFilter,
    /// What a line begins with.
    pub parts: LogParts,
    /// Bytes after which a file is begun anew.
    pub file_bytes_max: u64,
}

impl LogSection {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            dir: reader.path("LOG_DIR")?,
            controller_name: reader.path("CONTROLLER_LOG_FILE")?,
            agent_name_is_set: reader.is_set("AGENT_LOG_FILE"),
            agent_name: reader.path("AGENT_LOG_FILE")?,
            level: reader.parsed("LOG_LEVEL", "off, error, warn, info, debug or trace", |text| text.parse().ok())?,
            parts: reader.parsed(
                "LOG_FORMATTER",
                "a text with no other %(…) than %(asctime)s, %(filename)s, %(lineno)d, %(levelname)s, %(message)s",
                LogParts::parse,
            )?,
            file_bytes_max: reader.number("LOG_FILE_BYTES_MAX", FILE_BYTES_MIN..=1 << 50, "bytes")?,
        })
    }

    /// The controller's log file.
    #[must_use]
    pub fn controller_file(&self) -> PathBuf {
        self.dir.join(&self.controller_name)
    }

    /// The log file of one agent: `agent.log.<id>`.
    #[must_use]
    pub fn agent_file(&self, agent: &AgentId) -> PathBuf {
        let mut name = self.agent_name.clone().into_os_string();
        name.push(format!(".{agent}"));
        self.dir.join(name)
    }
}

/// What a line begins with, in this order; the message always follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogParts {
    /// The time of the event.
    pub time: bool,
    /// How severe it is.
    pub level: bool,
    /// The file and line of the source that logs it.
    pub place: bool,
}

impl LogParts {
    /// Reads a format of Python's `logging`; `None` when it names a part that we do not have.
    fn parse(format: &str) -> Option<Self> {
        let mut parts = Self { time: false, level: false, place: false };
        for tail in format.split("%(").skip(1) {
            match tail.split_once(')')?.0 {
                "asctime" => parts.time = true,
                "levelname" => parts.level = true,
                "filename" | "lineno" => parts.place = true,
                "message" => {}
                _ => return None,
            }
        }
        Some(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_says_which_parts_appear() {
        let parts = |time, level, place| Some(LogParts { time, level, place });
        assert_eq!(LogParts::parse("%(asctime)s %(filename)s[line:%(lineno)d] %(levelname)s"), parts(true, true, true));
        assert_eq!(LogParts::parse("%(levelname)s: %(message)s"), parts(false, true, false));
        assert_eq!(LogParts::parse("[line:%(lineno)d]"), parts(false, false, true));
        assert_eq!(LogParts::parse(""), parts(false, false, false));
        assert_eq!(LogParts::parse("%(levelnme)s"), None);
        assert_eq!(LogParts::parse("%(asctime"), None);
    }
}
