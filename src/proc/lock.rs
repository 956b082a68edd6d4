//! At most one running service per state folder, by a lock that the kernel releases when its holder dies, for whatever
//! reason.
//!
//! The lock file names the holder for people and for `llts down`. The text may outlive its writer, so the pid in it
//! counts only while the file is locked and the process is still the one that wrote it. A reused pid has another start
//! time.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::logging::utc;
use crate::process::{ProcessId, boot_id};
use crate::{clock, readable};
use base::Mono;

/// Time limit for the death of a killed holder, which keeps the lock until the kernel has torn it down.
const DEATH_MAX: Duration = Duration::from_secs(5);

/// How long to wait for a holder that shows no sign of ending. A signal sent just before may not have reached it yet.
pub const SIGNAL_MAX: Duration = Duration::from_millis(100);

/// Maximum checks of a busy lock whose text names no live holder. The holder may be about to write its name, or another
/// process may be checking the lock, which takes microseconds.
const LOOKS_MAX: usize = 1000;

/// Maximum bytes of the text. It has four short lines, so a longer file is not ours.
const TEXT_BYTES_MAX: u64 = 4096;

/// The lock, held as long as this value lives. A program that is started meanwhile does not inherit it (`O_CLOEXEC`).
#[derive(Debug)]
pub struct StateLock {
    file: File,
}

impl Drop for StateLock {
    /// Closing the file is not enough: a program that another thread is about to start shares it until its `exec`.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// The holder of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its process id; `None` if it is unknown, because the holder has just started or lives in another pid namespace.
    pub pid: Option<u32>,
}

/// Why a lock cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error(
        "another {what} already runs here: {holder} holds {path}; stop it with `llts down`, or use another STATE_DIR",
        holder = pid.map_or("a process".to_owned(), |pid| format!("process {pid}")),
        path = std::path::absolute(path).unwrap_or_else(|_| path.clone()).display()
    )]
    Held {
        /// Purpose of the lock: `controller`.
        what: String,
        /// The holder, if it is known.
        pid: Option<u32>,
        /// The lock file.
        path: PathBuf,
    },
    /// The folder or the file cannot be created, opened or written.
    #[error("cannot lock {path}: {source}", path = path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

impl StateLock {
    /// Takes the lock `<dir>/<what>.lock`, and creates `dir` (0700) if it is missing. Waits for a dying holder, and a
    /// tenth of a second for any other.
    ///
    /// # Errors
    /// [`LockError::Held`] when another process, or another `StateLock`, has it.
    pub fn acquire(dir: &Path, what: &str) -> Result<Self, LockError> {
        Self::acquire_within(dir, what, SIGNAL_MAX)
    }

    fn acquire_within(dir: &Path, what: &str, patience: Duration) -> Result<Self, LockError> {
        let path = lock_file(dir, what);
        let failed = |source| LockError::Io { path: path.clone(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        let mut file = open(&path, true).map_err(failed)?;
        let begin = clock::now().mono;
        for _ in 0..LOOKS_MAX {
            match file.try_lock() {
                Ok(()) => {
                    introduce(&mut file).map_err(failed)?;
                    return Ok(Self { file });
                }
                Err(fs::TryLockError::Error(source)) => return Err(failed(source)),
                Err(fs::TryLockError::WouldBlock) => {}
            }
            if let Some(pid) = living_writer(&path)
                && !ends_soon(pid, begin, patience)
            {
                return Err(LockError::Held { what: what.to_owned(), pid: Some(pid), path });
            }
            std::thread::yield_now();
        }
        Err(LockError::Held { what: what.to_owned(), pid: None, path })
    }

    /// Continues a lock that the previous program in this process has left open.
    pub fn adopt(file: OwnedFd) -> Self {
        Self { file: File::from(file) }
    }

    /// The descriptor, for [`Self::adopt`].
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// As [`Self::acquire`], but waits for the holder as long as necessary.
    ///
    /// # Errors
    /// When the folder or the file cannot be created, opened or written.
    pub fn wait(dir: &Path, what: &str) -> Result<Self, LockError> {
        let path = lock_file(dir, what);
        let failed = |source| LockError::Io { path: path.clone(), source };
        let mut file = open(&path, true).map_err(failed)?;
        file.lock().and_then(|()| introduce(&mut file)).map_err(failed)?;
        Ok(Self { file })
    }

    /// Waits until no process has the lock, on this machine or another one that has the folder too.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn wait_free(dir: &Path, what: &str) -> Result<(), LockError> {
        let path = lock_file(dir, what);
        let waited = match open(&path, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            opened => opened.and_then(|file| file.lock_shared()),
        };
        waited.map_err(|source| LockError::Io { path, source })
    }

    /// The holder of the lock, unless it is about to end. One that shows no sign of that yet is watched for as long as `patience`, such as
    /// [`SIGNAL_MAX`].
    #[must_use]
    pub fn lasting_holder(dir: &Path, what: &str, patience: Duration) -> Option<Holder> {
        let begin = clock::now().mono;
        loop {
            let holder = Self::holder(dir, what)?;
            if !holder.pid.is_some_and(|pid| ends_soon(pid, begin, patience)) {
                return Some(holder);
            }
            std::thread::yield_now();
        }
    }

    /// The holder of the lock; `None` if there is none, or the file cannot be checked.
    #[must_use]
    pub fn holder(dir: &Path, what: &str) -> Option<Holder> {
        let path = lock_file(dir, what);
        let file = open(&path, false).ok()?;
        for _ in 0..LOOKS_MAX {
            // Shared, so that two checking processes do not take each other for a holder.
            if !matches!(file.try_lock_shared(), Err(fs::TryLockError::WouldBlock)) {
                return None;
            }
            if let Some(pid) = living_writer(&path) {
                return Some(Holder { pid: Some(pid) });
            }
            std::thread::yield_now();
        }
        Some(Holder { pid: None })
    }
}

/// The file of a lock in this folder.
#[must_use]
pub fn lock_file(dir: &Path, what: &str) -> PathBuf {
    dir.join(format!("{what}.lock"))
}

/// Opens the lock file. It is never removed, because two processes could then hold locks on two files of the same name.
fn open(path: &Path, create: bool) -> io::Result<File> {
    let no_link = nix::libc::O_NOFOLLOW;
    File::options().read(true).write(create).create(create).mode(0o600).custom_flags(no_link).open(path)
}

fn introduce(file: &mut File) -> io::Result<()> {
    let pid = std::process::id();
    let start = start_ticks(pid).unwrap_or_default();
    let since = utc(clock::now().wall);
    file.set_len(0)?;
    match file.write_all(format!("pid {pid}\nstart_ticks {start}\nboot_id {}\nsince {since}\n", boot_id()).as_bytes()) {
        // The lock works without its text, and a service must be able to stop on a full disk.
        Err(error) if error.kind() == io::ErrorKind::StorageFull => file.set_len(0),
        written => written,
    }
}

/// The pid in the text, if the process that wrote it still exists.
fn living_writer(path: &Path) -> Option<u32> {
    let mut text = String::new();
    open(path, false).ok()?.take(TEXT_BYTES_MAX).read_to_string(&mut text).ok()?;
    let word = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let pid = word("pid")?.parse().ok()?;
    let start: u64 = word("start_ticks")?.parse().ok()?;
    (word("boot_id")? == boot_id() && start_ticks(pid) == Some(start)).then_some(pid)
}

/// Waits for a holder and returns whether it has ended. It may still have to be reaped, or a program that it was
/// starting may have the lock for a moment, so the caller checks the lock again.
fn ends_soon(pid: u32, begin: Mono, patience: Duration) -> bool {
    if pid == std::process::id() {
        return false;
    }
    let Some(process) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    // The process has ended since its name was read.
    let Ok(pidfd) = pidfd_open(process, PidfdFlags::empty()) else { return true };
    loop {
        let max = if is_dying(pid) { DEATH_MAX } else { patience };
        let left = (begin + max).since(clock::now().mono);
        if readable::is_readable(&pidfd, Some(left.min(SIGNAL_MAX))) {
            return true;
        }
        if left.is_zero() {
            return false;
        }
    }
}

/// Whether a process is exiting, or has a pending SIGKILL.
fn is_dying(pid: u32) -> bool {
    const PF_EXITING: u64 = 0x4;
    const SIGKILL: u64 = 1 << 8;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(6)?.parse::<u64>().ok());
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pending = |name| status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix(name)?.trim(), 16).ok());
    flags.is_some_and(|flags| flags & PF_EXITING != 0)
        || ["SigPnd:", "ShdPnd:"].into_iter().filter_map(pending).any(|signals| signals & SIGKILL != 0)
}

/// When a process started, in clock ticks since the boot.
fn start_ticks(pid: u32) -> Option<u64> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    Some(ProcessId::of(pid).ok()?.start_time)
}

#[cfg(test)]
mod tests;
