//! A file that gets its name when it is complete. Until then it has none, if the file system supports that, so that
//! nothing of it is left however its process ends. Files are replaced as a whole: a reader, and a start after a crash,
//! finds the old or the new content.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};

/// The mode of files that others may read, as far as the umask permits.
pub const SHARED: u32 = 0o666;

/// The mode of files that only their owner may read.
pub const PRIVATE: u32 = 0o600;

/// Replaces the file with what `write` writes, which is on the disk before it gets the name.
///
/// # Errors
/// The error of the system or of `write`. The old file is still there.
pub fn replace(path: &Path, mode: u32, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::IsADirectory.into());
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut draft = Draft::with_mode(folder, name, mode)?;
    write(&mut draft.file)?;
    draft.file.sync_all()?;
    draft.publish(path)
}

/// See the [module](self). Dropping it removes the file.
#[derive(Debug)]
pub struct Draft {
    file: File,
    /// Its temporary path. On file systems without unnamed files, the file has it from the start.
    path: PathBuf,
    is_named: bool,
}

impl Draft {
    /// Makes an empty file in a folder, for its owner only. Its temporary name is `name` and some digits.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn new(folder: &Path, name: &str) -> io::Result<Self> {
        Self::with_mode(folder, name.as_ref(), PRIVATE)
    }

    fn with_mode(folder: &Path, name: &OsStr, mode: u32) -> io::Result<Self> {
        let path = folder.join(name).with_added_extension(format!("{:016x}", rand::random::<u64>()));
        let mode = Mode::from(mode);
        // File systems and old kernels without unnamed files answer with different errors.
        if let Ok(file) = open(folder, OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC, mode) {
            return Ok(Self { file: file.into(), path, is_named: false });
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(Self { file: open(&path, flags, mode)?.into(), path, is_named: true })
    }

    /// The file.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name, in the same folder, and replaces any existing file.
    ///
    /// # Errors
    /// When the folder cannot be written. The file is then gone.
    pub fn publish(mut self, to: &Path) -> io::Result<()> {
        if !self.is_named {
            let link = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            linkat(CWD, link, CWD, &self.path, AtFlags::SYMLINK_FOLLOW)?;
            self.is_named = true;
        }
        fs::rename(&self.path, to)?;
        self.is_named = false;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.is_named {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_replacement_that_fails_leaves_the_old_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let count = || fs::read_dir(folder.path()).unwrap().count();
        let has_name = Draft::new(folder.path(), "a").unwrap().is_named;
        replace(&path, SHARED, |file| file.write_all(b"a long old text")).unwrap();
        replace(&path, SHARED, |file| file.write_all(b"old")).unwrap();
        let failed = replace(&path, SHARED, |file| {
            assert!(has_name || count() == 1, "a process that is killed here leaves its draft");
            file.write_all(b"half of").and(Err(io::ErrorKind::StorageFull.into()))
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(count(), 1, "a draft is left");
        let mode = |mode: u32| {
            replace(&path, mode, |_| Ok(())).unwrap();
            fs::metadata(&path).unwrap().permissions().mode() & 0o777
        };
        assert_eq!((mode(PRIVATE), mode(SHARED) & 0o600), (0o600, 0o600));
    }

    #[test]
    fn a_draft_replaces_a_file_when_it_is_complete_and_leaves_nothing_before_that() {
        let ground = tempfile::tempdir().unwrap();
        let (folder, place) = (ground.path(), ground.path().join("place"));
        fs::write(&place, "old").unwrap();
        drop(Draft::new(folder, "a").unwrap());
        let draft = Draft::new(folder, "a").unwrap();
        draft.file().write_all(b"new").unwrap();
        assert_eq!(fs::read_to_string(&place).unwrap(), "old");
        draft.publish(&place).unwrap();
        assert_eq!(fs::read_to_string(&place).unwrap(), "new");
        assert!(Draft::new(folder, "a").unwrap().publish(&folder.join("none/place")).is_err());
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
    }
}
