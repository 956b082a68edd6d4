//! The archives of tools and the files of tasks that the controller holds and agents fetch.

use std::time::Duration;

use super::error::ConfigError;
use super::reader::{DAY, Reader};

/// The archives of tools that the controller holds and agents fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolsSection {
    /// Bytes of fetched archives that the agents of a machine keep.
    pub fetched_bytes_max: u64,
    /// How long the controller keeps a version that nothing needs.
    pub keep: Duration,
    /// Bytes of an archive in one message.
    pub part_bytes: u64,
    /// Maximum number of parts that are read at the same time.
    pub parts_max: usize,
    /// Bytes in the store beyond which it accepts no file.
    pub store_bytes_max: u64,
    /// Free bytes of a disk below which only indispensable data is written.
    pub disk_reserve: u64,
    /// Bytes of the files of a run that are kept with its task.
    pub out_files_bytes_max: u64,
}

impl ToolsSection {
    pub(super) fn read(reader: &mut Reader) -> Result<Self, ConfigError> {
        Ok(Self {
            fetched_bytes_max: reader.number("TOOL_FETCHED_BYTES_MAX", 0..=1 << 50, "bytes")?,
            keep: reader.millis("TOOL_STORE_KEEP", 0..=365 * DAY)?,
            part_bytes: reader.number("TOOL_PART_BYTES", 1..=8 << 20, "bytes")?,
            parts_max: reader.size("TOOL_PARTS_MAX", 1..=1000, "parts")?,
            store_bytes_max: reader.number("FILE_STORE_BYTES_MAX", 0..=1 << 50, "bytes")?,
            disk_reserve: reader.number("DISK_RESERVE", 0..=1 << 50, "bytes")?,
            out_files_bytes_max: reader.number("OUT_FILES_BYTES_MAX", 0..=1 << 50, "bytes")?,
        })
    }
}
