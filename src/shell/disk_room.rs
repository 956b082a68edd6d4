//! Whether the end of an output may be missing because the disk is full.

use std::io;
use std::path::Path;

/// With less free space than this the disk counts as full: few commands notice that their last output was not written.
const ROOM_BYTES_MIN: u64 = 64 << 10;

/// Checks the free space: an output that was truncated by a full disk looks like any other.
///
/// # Errors
/// When there is no room, with a sentence; or the error of the system.
pub(super) fn check_room(folder: &Path) -> io::Result<()> {
    let file_system = rustix::fs::statvfs(folder)?;
    let blocks = if rustix::process::geteuid().is_root() { file_system.f_bfree } else { file_system.f_bavail };
    let room = blocks.saturating_mul(file_system.f_frsize);
    // A file system that does not count its blocks reports none at all.
    if file_system.f_blocks > 0 && room < ROOM_BYTES_MIN {
        let problem = format!("the disk has {room} bytes left, so that the end of the output may be missing");
        return Err(io::Error::new(io::ErrorKind::StorageFull, problem));
    }
    Ok(())
}
