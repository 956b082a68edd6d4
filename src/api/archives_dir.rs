//! The folder of a controller's archives, for agents and clients on the same machine.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder in the store for incomplete versions and files.
pub const INCOMING: &str = "incoming";

/// The folder of the store in a state folder.
#[must_use]
pub fn dir_in(state_dir: &Path) -> PathBuf {
    state_dir.join("archives")
}

/// Identifies a folder among all folders of all machines, until its machine reboots; `None` for a missing folder.
#[must_use]
pub fn folder_identity(dir: &Path) -> Option<Arc<str>> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = fs::metadata(dir).ok()?;
    let mut boot = String::new();
    File::open("/proc/sys/kernel/random/boot_id").ok()?.read_to_string(&mut boot).ok()?;
    Some(format!("{}:{}:{}", boot.trim(), metadata.dev(), metadata.ino()).into())
}
