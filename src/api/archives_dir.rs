//! The folder of a controller's archives, as agents and clients of its machine find it.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where a version or a file is while it is incomplete.
pub const INCOMING: &str = "incoming";

/// The folder of the store in a state folder.
#[must_use]
pub fn dir_in(state_dir: &Path) -> PathBuf {
    state_dir.join("archives")
}

/// Identifies a folder among all folders of all machines, until the machine is started anew; `None` for one that is missing.
#[must_use]
pub fn folder_identity(dir: &Path) -> Option<Arc<str>> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = fs::metadata(dir).ok()?;
    let mut boot = String::new();
    File::open("/proc/sys/kernel/random/boot_id").ok()?.read_to_string(&mut boot).ok()?;
    Some(format!("{}:{}:{}", boot.trim(), metadata.dev(), metadata.ino()).into())
}
