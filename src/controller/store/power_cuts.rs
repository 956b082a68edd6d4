//! Whether the machine may have lost commits that were not on the disk yet.
//!
//! With `DURABILITY = "process"` the kernel writes the log to the disk at any time, in any order. After a power failure a
//! commit may therefore be missing before later ones. This looks like damage but is not, because no promise outlives the
//! machine. So the boot in which the store was last used like that is noted beside it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use proc::process;
use proc::sqlite::beside;

/// Whether commits may be missing because the machine was restarted since the store was used without waiting for the disk.
pub(super) fn happened(path: &Path) -> io::Result<bool> {
    Ok(noted(path)?.is_some_and(|boot| boot != process::boot_id()))
}

/// Notes whether commits from now on do not wait for the disk.
pub(super) fn expect(path: &Path, expected: bool) -> io::Result<()> {
    let boot = process::boot_id();
    let note = note_of(path);
    match noted(path)? {
        Some(noted) if expected && noted == boot => Ok(()),
        None if !expected => Ok(()),
        Some(_) | None if expected => fs::write(note, boot),
        Some(_) | None => fs::remove_file(note),
    }
}

fn noted(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(note_of(path)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

fn note_of(path: &Path) -> PathBuf {
    beside(path, "-boot")
}
