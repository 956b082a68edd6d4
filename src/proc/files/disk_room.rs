//! Whether a disk is full: to decide whether an output is complete, and to explain errors.

use std::error::Error;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// With less free space than this, the disk counts as full: few commands notice that their last output was not written.
const ROOM_BYTES_MIN: u64 = 64 << 10;

/// With less free space than this, a failed write is blamed on the disk.
const STORE_BYTES_MIN: u64 = 1 << 20;

/// Whether a full disk or a quota has caused an error.
pub fn is_full(error: &(dyn Error + 'static)) -> bool {
    let full = |error: &io::Error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    error.downcast_ref::<io::Error>().is_some_and(full) || error.source().is_some_and(is_full)
}

/// The bytes that may be written to the disk of a file or folder before only the reserve is free: `DISK_RESERVE`, or a
/// tenth of a small disk.
///
/// # Errors
/// The error of the system.
pub fn above_reserve(folder: impl AsFd, reserve: u64) -> io::Result<u64> {
    let file_system = rustix::fs::fstatvfs(folder)?;
    // A file system that does not count its blocks reports none at all.
    if file_system.f_blocks == 0 {
        return Ok(u64::MAX);
    }
    let size = file_system.f_blocks.saturating_mul(file_system.f_frsize);
    let free = file_system.f_bavail.saturating_mul(file_system.f_frsize);
    Ok(free.saturating_sub(reserve.min(size / 10)))
}

/// Whether the disk of a folder has so little room that a failed write is blamed on it.
pub fn is_short(folder: &Path) -> bool {
    free(folder).is_some_and(|room| room < STORE_BYTES_MIN)
}

/// The reason why a file in a folder could not be written, with the free space if there is little.
pub fn with_room(why: String, folder: &Path) -> String {
    match free(folder).filter(|room| *room < STORE_BYTES_MIN) {
        Some(room) => format!("{why}: the disk of {} has {room} bytes free", folder.display()),
        None => why,
    }
}

/// The bytes that may be written to the disk of a folder; `None` if that is unknown.
pub fn free(folder: &Path) -> Option<u64> {
    let file_system = rustix::fs::statvfs(folder).ok()?;
    // A file system that does not count its blocks reports none at all.
    (file_system.f_blocks > 0).then(|| file_system.f_bavail.saturating_mul(file_system.f_frsize))
}

/// Checks the free space: an output that was truncated by a full disk looks like any other.
///
/// # Errors
/// When there is no room, with a sentence; or the error of the system.
pub fn check_room(folder: &Path) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_full_disk_and_a_quota_are_found_behind_other_errors() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] io::Error);
        let full = |errno: Errno| is_full(&Outer(errno.into())) && is_full(&io::Error::from(errno));
        assert!(full(Errno::NOSPC) && full(Errno::DQUOT));
        assert!(!is_full(&Outer(Errno::ACCESS.into())));
    }
}
