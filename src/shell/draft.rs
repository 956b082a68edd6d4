//! A file that gets its name when it is complete. Until then it has none, where the file system can do that, so that nothing of it is
//! left however its process ends.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};

/// See the [module](self). Dropping it removes the file.
#[derive(Debug)]
pub struct Draft {
    file: File,
    /// Its name before its own: taken at once on file systems that know no file without a name.
    path: PathBuf,
    is_named: bool,
}

impl Draft {
    /// Makes an empty file for its owner in a folder. `name` and some digits are its name before its own.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn new(folder: &Path, name: &str) -> io::Result<Self> {
        let path = folder.join(format!("{name}.{:016x}", rand::random::<u64>()));
        let mode = Mode::RUSR | Mode::WUSR;
        // Some file systems answer as an old kernel does, which takes this for the folder.
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

    /// Gives the file its name, in the same folder, and replaces what has it.
    ///
    /// # Errors
    /// When the folder cannot be written; the file is gone then.
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

    use super::*;

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
