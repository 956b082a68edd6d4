//! Tools on disk: `<operation>.tar.gz` in the tools folder (document, section 3), unpacked once per host and copied per
//! task.
//!
//! [`archive`] unpacks an archive that may be hostile. [`cache`] keeps unpacked tools and gives each task a private
//! copy. [`folder`] lists what is there. [`mod@pack`], [`mod@check`] and [`mod@create`] are what a person who writes tools uses. Starting run.sh is left
//! to others.

pub mod archive;
pub mod cache;
pub mod check;
pub mod create;
mod error;
pub mod folder;
mod notice;
pub mod pack;
mod samples;
mod scratch;
mod section;

pub use archive::{ArchiveError, Limits, Unpacked, unpack};
pub use cache::{CacheError, Placed, Pristine, Size, ToolCache};
pub use check::{CheckError, Checked, check};
pub use create::{CreateError, create};
pub use error::ToolError;
pub use folder::ToolsFolder;
pub use notice::SIGNAL as CHANGE_SIGNAL;
pub use pack::{PackError, Packed, make_tools_dir, pack};
pub use samples::{FIRST_SAMPLE, Unpacked as UnpackedSample, unpack_samples};

/// The script that starts a tool (document, section 3.1).
pub const RUN_SCRIPT: &str = "run.sh";
