//! Tools on disk: `<operation>.tar.gz` in the tools folder (docs/sources/controller.md, 3), unpacked once per host and copied per
//! task.
//!
//! [`archive`] unpacks an archive that may be hostile. [`cache`] stores unpacked tools and gives each task a private copy.
//! [`folder`] lists the available tools. [`mod@pack`], [`validation`] and [`mod@create`] are the commands for authors of
//! tools. Starting run.sh is not part of this module.

pub mod archive;
pub mod cache;
pub mod create;
mod error;
pub mod folder;
mod notice;
pub mod pack;
mod samples;
pub mod scratch;
pub mod unpacked;
mod validation;

pub use archive::{ArchiveError, Limits, Unpacked, survey, unpack};
pub use cache::{CacheError, Placed, Size, ToolCache, ToolSnapshot, ToolVersion, open_archive, used_mark};
pub use create::{CreateError, create};
pub use error::ToolError;
pub use folder::ToolsFolder;
pub use notice::SIGNAL as CHANGE_SIGNAL;
pub use pack::{PackError, Packed, make_tools_dir, pack};
pub use samples::{FIRST_SAMPLE, Unpacked as UnpackedSample, unpack_samples};
pub use validation::{CheckError, Checked, PackedTool, check, packed};

/// The script that starts a tool (docs/sources/controller.md, 3.1).
pub const RUN_SCRIPT: &str = "run.sh";
