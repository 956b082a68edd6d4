//! The folder of an ephemeral service, and the cleanup after all of its keepers were killed.
//!
//! Its keepers are the command, the guard of the command, and the supervisor. Each of them holds a shared lock on a file in the folder as
//! long as it lives. The kernel releases a lock however its holder ends, and shows it to every process of the machine, even in another
//! PID namespace. So a free lock means that all three keepers have gone, and that only [`end_abandoned`] can end the remains of the
//! service.
//!
//! The file is filled by a holder of the lock, after locking. An empty file belongs to a command that is starting at
//! this moment.

use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags, openat};
use serde::{Deserialize, Serialize};

use super::stop::{self, StopError};
use api::config::Config;
use base::path_text::as_text;
use proc::files::removal;
use proc::files::removal::Budget;
use proc::process::boot_id;
use proc::temp_dir::temp_dir;

/// Prefix of the folder's name. A folder without it is never removed.
pub const EPHEMERAL_PREFIX: &str = "llts-run-";

/// STATE_DIR of the service, in its folder.
pub const EPHEMERAL_STATE: &str = "state";

/// AGENT_WORK_DIR of the service, in its folder.
pub const EPHEMERAL_WORK: &str = "work";

/// LOG_DIR of the service, in its folder.
pub const EPHEMERAL_LOG: &str = "log";

/// The file that the keepers lock.
const LOCK_FILE: &CStr = c"keepers.lock";

/// A longer text was not written by this program.
const TEXT_BYTES_MAX: u64 = 16 * 1024;

/// The permissions of the folder. It may also have the set-group-ID bit of its parent.
const PRIVATE: u32 = 0o700;

/// The lock of one keeper. It holds until this is dropped or the process ends.
#[derive(Debug)]
pub struct KeeperLock {
    _file: File,
}

/// Where the processes of the service can be seen and signalled.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Home {
    boot_id: String,
    /// The link target of `/proc/self/ns/pid`.
    pid_namespace: String,
    /// The folder itself, which is part of the mark of the service's processes.
    #[serde(with = "as_text")]
    folder: PathBuf,
}

/// An ephemeral service without a keeper, and the result of the cleanup.
#[derive(Debug)]
pub struct Abandoned {
    /// Its folder.
    pub folder: PathBuf,
    /// Number of processes that were ended, or the reason why parts of it remain.
    pub ended: Result<u32, String>,
}

impl KeeperLock {
    /// Makes the file in a new folder and takes the first lock.
    ///
    /// # Errors
    /// When the file cannot be made or locked.
    pub fn make(folder: &Path) -> io::Result<Self> {
        let mut file = options().create_new(true).mode(0o600).open(lock_file(folder))?;
        file.lock_shared()?;
        file.write_all(&serde_json::to_vec(&Home::of(folder)?)?)?;
        Ok(Self { _file: file })
    }

    /// Takes one more lock, as another keeper.
    ///
    /// # Errors
    /// When the service does not exist any more.
    pub fn join(folder: &Path) -> io::Result<Self> {
        let path = lock_file(folder);
        let failed = |why: &str| io::Error::other(format!("{why} {}", path.display()));
        let file = options().open(&path).map_err(|error| failed(&format!("{error}:")))?;
        match file.try_lock_shared() {
            // A process that ends the service removes the file under its lock.
            Ok(()) if file.metadata()?.nlink() > 0 => Ok(Self { _file: file }),
            Ok(()) | Err(TryLockError::WouldBlock) => Err(failed("its starter was killed, and another command ends")),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn lock_file(folder: &Path) -> PathBuf {
    folder.join(removal::path_of(LOCK_FILE))
}

fn options() -> fs::OpenOptions {
    let mut options = File::options();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.read(true).write(true).custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    options
}

impl Home {
    fn of(folder: &Path) -> io::Result<Self> {
        let pid_namespace = fs::read_link("/proc/self/ns/pid")?.to_string_lossy().into_owned();
        Ok(Self { boot_id: boot_id().to_owned(), pid_namespace, folder: folder.canonicalize()? })
    }

    /// Whether the processes of the service can be seen from here. Those of an earlier boot cannot be told from those of
    /// another machine that shares the folder.
    fn is_here(&self, folder: &Path) -> bool {
        !self.boot_id.is_empty() && Self::of(folder).is_ok_and(|here| here == *self)
    }
}

/// Ends the ephemeral services in TMPDIR that have lost their keepers, as the guard of each would have done, and removes
/// their folders. A service with a keeper is left alone, and so is one whose processes cannot be seen from here.
#[must_use]
pub fn end_abandoned(config: &Config) -> Vec<Abandoned> {
    end_abandoned_in(&temp_dir(), config)
}

fn end_abandoned_in(base: &Path, config: &Config) -> Vec<Abandoned> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(parent) = openat(rustix::fs::CWD, base, flags, Mode::empty()) else { return Vec::new() };
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).filter(|name| is_name(name)).collect();
    names.sort();
    let found = names.into_iter().filter_map(|name| {
        let folder = base.join(&name);
        let opened = open_private(&parent, &CString::new(name.as_bytes()).ok()?)?;
        let _lock = lock_abandoned(&opened, &folder)?;
        let ended = end(&folder, config);
        Some(Abandoned { folder, ended })
    });
    found.collect()
}

fn is_name(name: &OsStr) -> bool {
    name.as_bytes().starts_with(EPHEMERAL_PREFIX.as_bytes())
}

/// Opens a folder in the state that its maker leaves: ours, private, not a link, and not a mount point.
fn open_private(parent: &OwnedFd, name: &CStr) -> Option<OwnedFd> {
    let folder = removal::open_on_mount(parent.as_fd(), name).ok()?;
    let stat = rustix::fs::fstat(&folder).ok()?;
    let is_ours = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o777 == PRIVATE;
    is_ours.then_some(folder)
}

/// Takes the lock of a service without keepers, and keeps new ones out.
fn lock_abandoned(opened: &OwnedFd, folder: &Path) -> Option<File> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(openat(opened, LOCK_FILE, flags, Mode::empty()).ok()?);
    file.metadata().ok().filter(fs::Metadata::is_file)?;
    let mut text = Vec::new();
    (&mut file).take(TEXT_BYTES_MAX).read_to_end(&mut text).ok()?;
    // Read before the lock is taken: a maker must never see its empty file locked.
    serde_json::from_slice::<Home>(&text).ok().filter(|home| home.is_here(folder))?;
    file.try_lock().ok()?;
    // Another command may have ended it since the file was opened.
    file.metadata().ok().filter(|found| found.nlink() > 0)?;
    Some(file)
}

/// The work of the guard of a run that hosts a service. The supervisor ends by itself when the run has gone; if it was killed too, this
/// ends the remains of the service. The folder goes last, because its records identify the remains. Returns the number of processes that
/// were ended.
///
/// # Errors
/// [`StopError`], when one of its processes is still alive: then the folder stays.
pub fn end_ephemeral(config: &Config, folder: &Path) -> Result<u32, StopError> {
    for name in [EPHEMERAL_STATE, EPHEMERAL_WORK] {
        let path = folder.join(name);
        match removal::open_uncovered(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(StopError::Folder { path, source }),
            Ok(_) | Err(_) => {}
        }
    }
    let stopped = stop::end(config, |_, _| Ok(()))?;
    if stopped.remains > 0 {
        log::warn!("an ephemeral service was killed: ended {} of its processes", stopped.remains);
    }
    drop(EphemeralDir::new(folder));
    Ok(stopped.remains)
}

fn end(folder: &Path, config: &Config) -> Result<u32, String> {
    let mut config = config.clone();
    config.paths.state_dir = folder.join(EPHEMERAL_STATE);
    config.paths.work_dir = folder.join(EPHEMERAL_WORK);
    let ended = end_ephemeral(&config, folder).map_err(|error| error.to_string())?;
    if folder.symlink_metadata().is_ok() {
        let why = "a part of it cannot be removed: unmount what is mounted there, and remove what belongs to another user; \
                   the next `llts down` removes the rest";
        return Err(why.to_owned());
    }
    Ok(ended)
}

/// The folder of an ephemeral service. The supervisor, or the guard of the command, removes it.
pub(super) struct EphemeralDir(PathBuf);

impl EphemeralDir {
    pub(super) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }
}

impl Drop for EphemeralDir {
    fn drop(&mut self) {
        let named = self.0.file_name().is_some_and(is_name);
        let own = fs::symlink_metadata(&self.0)
            .is_ok_and(|found| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw());
        if named && own && empty(&self.0) {
            let _ = removal::remove_and_unmount(&self.0);
        }
    }
}

/// Removes everything but the lock, which shows [`end_abandoned`] that work is left. Remaining files belong to a tool that
/// ran as another user, or are mounts; the command names the folder.
fn empty(folder: &Path) -> bool {
    let Ok(top) = removal::open_uncovered(folder) else { return false };
    let entries = Dir::read_from(&top).into_iter().flatten().flatten();
    let names: Vec<CString> = entries.map(|entry| entry.file_name().to_owned()).collect();
    let others = names.iter().filter(|name| ![c".", c"..", LOCK_FILE].contains(&name.as_c_str()));
    let left =
        others.filter(|name| !removal::remove_tree_and_unmount(top.as_fd(), name, &mut Budget::unlimited()).is_gone());
    left.count() == 0
}

#[cfg(test)]
mod tests;
