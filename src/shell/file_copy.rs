//! Copies of a file: without reading it, where the file system can share its blocks.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::ioctl_ficlone;

/// Copies a file to a new one.
///
/// # Errors
/// When the new one exists, or cannot be written.
pub fn copy_to(file: &File, to: &Path) -> io::Result<()> {
    let new = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    copy_into(file, &new)
}

/// Copies a file into an empty one.
///
/// # Errors
/// When it cannot be written.
pub fn copy_into(file: &File, new: &File) -> io::Result<()> {
    if ioctl_ficlone(new, file).is_ok() {
        return Ok(());
    }
    let mut at = 0;
    loop {
        // With positions of its own: the cursor of the file may be shared.
        match rustix::fs::copy_file_range(file, Some(&mut at), new, None, 1 << 30) {
            Ok(0) => return Ok(()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    let mut chunk = vec![0; 1 << 17];
    let mut writer = new;
    loop {
        match file.read_at(&mut chunk, at) {
            Ok(0) => return Ok(()),
            Ok(bytes) => {
                io::Write::write_all(&mut writer, &chunk[..bytes])?;
                at += bytes as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
