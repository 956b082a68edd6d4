//! A log file that never grows beyond a bound: when it is full it is renamed to `<name>.1` and a new one is begun.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file of whole lines for one process.
pub(super) struct Rotating {
    path: PathBuf,
    file: File,
    /// Bytes of whole lines in the file.
    bytes: u64,
    /// `None` for a file that cannot be renamed and has no length, such as `/dev/stderr`.
    bytes_max: Option<u64>,
}

impl Rotating {
    /// Opens the file to append to it, creating it and its folder.
    ///
    /// # Errors
    /// When that fails, or another process logs to the file (`WouldBlock`), because lines would be lost at each rename.
    pub(super) fn open(path: &Path, bytes_max: u64) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = open_locked(path)?;
        let facts = file.metadata()?;
        let bytes_max = facts.is_file().then_some(bytes_max);
        Ok(Self { path: path.to_owned(), file, bytes: facts.len(), bytes_max })
    }

    /// Writes one line at once, so that it is in the file even if the process is killed right after.
    pub(super) fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if self.bytes > 0 && self.bytes_max.is_some_and(|max| self.bytes.saturating_add(length) > max) {
            self.rotate()?;
        }
        let written = self.file.write_all(line);
        match written {
            Ok(()) => self.bytes += length,
            // A full disk takes a part of a line. The next line must not continue it.
            Err(_) if self.bytes_max.is_some() => self.file.set_len(self.bytes)?,
            Err(_) => {}
        }
        written
    }

    fn rotate(&mut self) -> io::Result<()> {
        match self.begin_anew() {
            Ok(file) => self.file = file,
            // The bound holds even if no file can be renamed or created: the disk is worth more than old lines.
            Err(_) => self.file.set_len(0)?,
        }
        self.bytes = 0;
        Ok(())
    }

    fn begin_anew(&self) -> io::Result<File> {
        match fs::rename(&self.path, older(&self.path)) {
            // Another process has removed the file meanwhile.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => open_locked(&self.path),
        }
    }
}

impl Drop for Rotating {
    /// Closing the file is not enough: a program that another thread is about to start shares it until its `exec`.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// `<name>.1`
fn older(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".1");
    PathBuf::from(name)
}

fn open_locked(path: &Path) -> io::Result<File> {
    let file = File::options().append(true).create(true).open(path)?;
    match file.try_lock() {
        // A lock needs a file: a terminal or a pipe may be shared.
        Err(TryLockError::WouldBlock) if file.metadata()?.is_file() => Err(io::ErrorKind::WouldBlock.into()),
        _ => Ok(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_renamed_and_begun_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep").join("a.log");
        let mut log = Rotating::open(&path, 10).expect("open");
        for line in ["1234\n", "5678\n", "9\n", "a line longer than the bound\n", "b\n"] {
            log.write_line(line.as_bytes()).expect("written");
        }
        assert_eq!(fs::read_to_string(&path).expect("new"), "b\n");
        assert_eq!(fs::read_to_string(older(&path)).expect("old"), "a line longer than the bound\n");
        assert_eq!(fs::read_dir(path.parent().expect("a folder")).expect("read").count(), 2);
    }

    #[test]
    fn a_restart_appends_and_still_knows_the_length() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.log");
        Rotating::open(&path, 10).expect("open").write_line(b"12345678\n").expect("written");
        let mut log = Rotating::open(&path, 10).expect("open again");
        log.write_line(b"x\n").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("new"), "x\n");
        assert_eq!(fs::read_to_string(older(&path)).expect("old"), "12345678\n");
    }

    #[test]
    fn the_bound_holds_when_the_old_file_cannot_be_renamed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.log");
        // A folder that is not empty is in the place of the old file.
        fs::create_dir_all(older(&path).join("x")).expect("created");
        let mut log = Rotating::open(&path, 10).expect("open");
        for _ in 0..5 {
            log.write_line(b"1234567\n").expect("written");
        }
        assert_eq!(fs::read_to_string(&path).expect("read"), "1234567\n");
    }

    #[test]
    fn a_file_that_was_removed_comes_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.log");
        let mut log = Rotating::open(&path, 10).expect("open");
        log.write_line(b"1234567\n").expect("written");
        fs::remove_file(&path).expect("removed");
        log.write_line(b"89abcde\n").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), "89abcde\n");
    }

    #[test]
    fn one_file_has_one_writer() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.log");
        let mut log = Rotating::open(&path, 10).expect("open");
        log.write_line(b"1234567\n").expect("written");
        log.write_line(b"89abcde\n").expect("written");
        // The lock moves on to the new file with the rename.
        let second = Rotating::open(&path, 10).err().expect("in use");
        assert_eq!(second.kind(), io::ErrorKind::WouldBlock);
        drop(log);
        assert!(Rotating::open(&path, 10).is_ok());
    }
}
