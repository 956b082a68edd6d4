//! Replacing a file as a whole: a reader, and a start after a crash, finds the old content or the new one.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// For files that others may read, as far as the umask lets them.
pub(super) const SHARED: u32 = 0o666;

/// For files with what only their owner may know.
pub(super) const PRIVATE: u32 = 0o600;

/// Replaces the file with what `write` writes: that is on the disk before it gets the name.
///
/// # Errors
/// The error of the system or of `write`. The old file is still there.
pub(super) fn replace(path: &Path, mode: u32, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    // Two processes may replace it at the same time.
    let draft = path.with_added_extension(format!("new-{}", std::process::id()));
    let written =
        File::options().write(true).create(true).truncate(true).mode(mode).open(&draft).and_then(|mut file| {
            write(&mut file)?;
            file.sync_all()?;
            fs::rename(&draft, path)
        });
    // The draft was made here, or does not exist.
    written.inspect_err(|_| drop(fs::remove_file(&draft)))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_replacement_that_fails_leaves_the_old_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        replace(&path, SHARED, |file| file.write_all(b"a long old text")).unwrap();
        replace(&path, SHARED, |file| file.write_all(b"old")).unwrap();
        let failed =
            replace(&path, SHARED, |file| file.write_all(b"half of").and(Err(io::ErrorKind::StorageFull.into())));
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "a draft is left");
    }
}
