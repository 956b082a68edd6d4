//! The section for logs: folder, file names, size and format.

use super::error::ConfigError;
use super::reader::Reader;
use base::{LogFormat, LogLayout, LogSection};

/// Smallest limit of a log file: room for the longest line.
const FILE_BYTES_MIN: u64 = 16_384;

pub(super) fn read(reader: &mut Reader) -> Result<LogSection, ConfigError> {
    Ok(LogSection {
        dir: reader.path("LOG_DIR")?,
        controller_name: reader.path("CONTROLLER_LOG_FILE")?,
        agent_name_is_set: reader.is_set("AGENT_LOG_FILE"),
        agent_name: reader.path("AGENT_LOG_FILE")?,
        level: reader.parsed("LOG_LEVEL", "off, error, warn, info, debug or trace", |text| text.parse().ok())?,
        layout: layout(reader)?,
        file_bytes_max: reader.number("LOG_FILE_BYTES_MAX", FILE_BYTES_MIN..=1 << 50, "bytes")?,
    })
}

fn layout(reader: &mut Reader) -> Result<LogLayout, ConfigError> {
    let fields = reader.parsed(
        "LOG_FORMATTER",
        "\"\", or a text without control characters and with no % except in %%, %(asctime)s, %(filename)s, %(lineno)d, \
         %(levelname)s, %(message)s, %(name)s, %(pathname)s and %(process)d, each with an optional width as in \
         %(levelname)-5s",
        LogFormat::parse,
    )?;
    let text =
        if fields == LogFormat::parse("").unwrap_or_default() { LogLayout::Words } else { LogLayout::Fields(fields) };
    let given = reader.parsed("LOG_FORMAT", "\"text\", \"json\" or \"journald\"", |word| match word {
        "text" => Some(None),
        "json" => Some(Some(LogLayout::Json)),
        "journald" => Some(Some(LogLayout::Journald)),
        _ => None,
    })?;
    Ok(given.unwrap_or(text))
}
