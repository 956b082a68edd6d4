//! The limits of archives as configured.

use super::Limits;
use crate::config::ArchiveSection;

impl From<&ArchiveSection> for Limits {
    fn from(section: &ArchiveSection) -> Self {
        Self {
            packed_bytes: section.packed_bytes_max,
            unpacked_bytes: section.unpacked_bytes_max,
            entries: section.entries_max,
            ratio: section.ratio_max,
            ratio_free_bytes: Self::RATIO_FREE_BYTES,
            path_bytes: section.path_bytes_max,
            depth: section.depth_max,
            timeout: section.timeout,
        }
    }
}
