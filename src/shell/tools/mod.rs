//! Tools on disk: `<operation>.tar.gz` in the tools folder (document, section 3), unpacked once per host and copied per task.
//!
//! [`archive`] unpacks an archive that may be hostile. [`cache`] keeps unpacked tools and gives each task a private copy.

pub mod archive;
pub mod cache;
mod error;
mod scratch;

pub use archive::{ArchiveError, Limits, Unpacked, unpack};
pub use cache::{CacheError, Placed, Size, ToolCache};
pub use error::ToolError;

/// The script that starts a tool (document, section 3.1).
pub const RUN_SCRIPT: &str = "run.sh";
