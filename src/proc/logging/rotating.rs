//! A log file of bounded size: when it is full, it is renamed to `<name>.1` and a new one is started.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::clock;

/// How long to wait for the lock of a file. A process that was just forked shares the descriptors of its parent until
/// its exec, so the lock of a process that has ended, or has become another program, is still held for a moment. On a
/// busy machine the forked process may have to wait for a core.
const LOCK_MAX: Duration = Duration::from_secs(2);

/// Pause between two attempts to lock. The kernel reports the release of a lock only to a thread that blocks on it.
const LOCK_INTERVAL: Duration = Duration::from_millis(1);

/// A file of whole lines for one process.
pub(super) struct Rotating {
    path: PathBuf,
    file: File,
    /// Bytes of complete lines in the file.
    bytes: u64,
    /// `None` for a file without a length that cannot be renamed, such as `/dev/stderr`.
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
        let file = open_locked(path, LOCK_MAX)?;
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
            // A full disk may take part of a line, which the next line must not continue.
            Err(_) if self.bytes_max.is_some() => self.file.set_len(self.bytes)?,
            Err(_) => {}
        }
        written
    }

    fn rotate(&mut self) -> io::Result<()> {
        match self.begin_anew() {
            Ok(file) => self.file = file,
            // The bound holds even if no file can be renamed or created: disk space is worth more than old lines.
            Err(_) => self.file.set_len(0)?,
        }
        self.bytes = 0;
        Ok(())
    }

    fn begin_anew(&self) -> io::Result<File> {
        match fs::rename(&self.path, older(&self.path)) {
            // Another process has removed the file meanwhile.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => open_locked(&self.path, Duration::ZERO),
        }
    }

    /// Opens a new file if another one, or none, has the name.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        let ours = self.file.metadata()?;
        let is_same =
            fs::metadata(&self.path).is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino()));
        if !is_same {
            let anew = Self::open(&self.path, self.bytes_max.unwrap_or(u64::MAX))?;
            *self = anew;
        }
        Ok(())
    }

    pub(super) fn unlock(&self) {
        let _ = self.file.unlock();
    }

    /// Takes the lock again, if possible. Lines are written without it, too.
    pub(super) fn lock(&self) {
        let _ = self.file.try_lock();
    }
}

impl Drop for Rotating {
    /// Closing the file is not enough: a program that another thread is about to start shares it until its `exec`.
    fn drop(&mut self) {
        self.unlock();
    }
}

/// `<name>.1`
fn older(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".1");
    PathBuf::from(name)
}

fn open_locked(path: &Path, lock_max: Duration) -> io::Result<File> {
    // A FIFO without a reader is refused, and not waited for.
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = File::options().append(true).create(true).custom_flags(nonblocking).open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    // A lock needs a file: a terminal or a pipe may be shared.
    if !file.metadata()?.is_file() {
        return Ok(file);
    }
    let until = clock::now().mono + lock_max;
    while let Err(TryLockError::WouldBlock) = file.try_lock() {
        if clock::now().mono >= until {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        std::thread::park_timeout(LOCK_INTERVAL);
    }
    Ok(file)
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

    /// A program that is being started shares the lock of its parent until its exec, also when the parent has ended.
    #[test]
    fn a_lock_that_is_about_to_be_released_is_awaited() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.log");
        let log = Rotating::open(&path, 10).expect("open");
        let shared = log.file.try_clone().expect("the same lock");
        // Only the descriptor is closed, as at the exec of its process.
        std::mem::forget(log);
        let (begins, begun) = std::sync::mpsc::channel();
        let opening = std::thread::spawn(move || {
            begins.send(()).expect("heard");
            Rotating::open(&path, 10).map(drop)
        });
        begun.recv().expect("it begins");
        let until = clock::now().mono + LOCK_INTERVAL * 20;
        while clock::now().mono < until && !opening.is_finished() {
            std::thread::yield_now();
        }
        shared.unlock().expect("the exec");
        opening.join().expect("no panic").expect("open");
    }

    #[test]
    fn a_fifo_without_a_reader_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.log");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("made");
        assert_eq!(Rotating::open(&path, 100).map(drop).map_err(|error| error.raw_os_error()), Err(Some(6)));
    }

    #[test]
    fn a_file_that_was_renamed_is_begun_anew_on_request() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, moved] = ["a.log", "b.log"].map(|name| folder.path().join(name));
        let mut log = Rotating::open(&path, 100).expect("open");
        log.write_line(b"1\n").expect("written");
        log.reopen().expect("the same file");
        fs::rename(&path, &moved).expect("renamed");
        log.write_line(b"2\n").expect("written");
        log.reopen().expect("a new file");
        log.write_line(b"3\n").expect("written");
        assert_eq!(fs::read_to_string(&moved).expect("read"), "1\n2\n");
        assert_eq!(fs::read_to_string(&path).expect("read"), "3\n");
    }
}
