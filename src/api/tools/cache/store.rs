//! The cache folder, which many agent processes share without communicating.
//!
//! It contains `<tool>-<boot>-<size>-<digest>/` with the unpacked `<tool>/` and a file `size`. Such a folder appears
//! complete, with one rename, and disappears with one rename; no agent writes to it in between. The name identifies the
//! unpacked bytes, so that two processes that unpack the same archive make the same folder, and the second to finish drops
//! its own.
//!
//! The boot is in the name because the files are not synced: after a crash of the machine the folders of the earlier boot
//! may contain empty files, and are not used again.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, fstat, openat, utimensat};
use rustix::io::Errno;

use super::manifest::Manifest;
use super::snapshot::ToolSnapshot;
use super::{CacheError, Size};
use crate::tools::archive::Inventory;
use crate::tools::scratch;
use crate::tools::scratch::Scratch;
use crate::trust;
use base::ToolName;
use proc::clock;
use proc::files::removal;

const TEMP_PREFIX: &str = ".tmp-";
const TRASH_PREFIX: &str = ".trash-";
const SIZE_NAME: &str = "size";

/// Held by the one process that evicts.
const LOCK_NAME: &str = ".evict";

/// Approximate disk space of a file, folder or link besides its bytes.
const ENTRY_BYTES: u64 = 4096;

/// An unpacked tool, open.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) root: OwnedFd,
    pub(super) manifest: Manifest,
    /// Whether all contents were found correct long after their last changes: another change is then certain to be visible.
    sealed: AtomicBool,
    snapshot: OnceLock<Option<Arc<ToolSnapshot>>>,
}

/// Seconds after which another change of a file certainly gets another time: far more than a tick of the file system's clock,
/// plus one for rounding.
const SETTLING_SECONDS: i64 = 3;

impl Entry {
    fn new(name: &str, root: OwnedFd, manifest: Manifest) -> Self {
        Self { name: name.to_owned(), root, manifest, sealed: AtomicBool::new(false), snapshot: OnceLock::new() }
    }

    /// Whether its files have the contents of the archive. Reads them all, unless an earlier call has found them correct and
    /// settled: then a copy sees each further change by the times.
    ///
    /// # Errors
    /// When it cannot be read, for example because it was evicted.
    pub(super) fn is_right(&self) -> io::Result<bool> {
        if self.sealed.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let now = i64::try_from(clock::now().wall.micros() / 1_000_000).unwrap_or(i64::MAX);
        let right = self.manifest.has_its_content(self.root.as_fd())?;
        let settled = self.manifest.last_change().saturating_add(SETTLING_SECONDS) <= now;
        self.sealed.store(right && settled, Ordering::Relaxed);
        Ok(right)
    }

    /// Treats the entry as if its last change were long ago.
    #[cfg(test)]
    pub(super) fn seal_now(&self) {
        self.sealed.store(true, Ordering::Relaxed);
    }

    /// The whole tool, read once per process, if it is small.
    pub(super) fn snapshot(&self, tool: &ToolName) -> Option<Arc<ToolSnapshot>> {
        let read = || match ToolSnapshot::read(tool, &self.name, self.root.as_fd(), &self.manifest) {
            Ok(snapshot) => snapshot.map(Arc::new),
            Err(error) => {
                // The next copy of it detects the defect.
                log::warn!("cannot read the unpacked tool {}: {error}", self.name);
                None
            }
        };
        self.snapshot.get_or_init(read).clone()
    }
}

/// The cache folder.
pub(super) struct Store {
    dir: PathBuf,
    bytes_max: u64,
    boot: String,
}

impl Store {
    /// Creates the folder if it is missing, and removes the remains of dead processes and earlier boots.
    pub(super) fn open(dir: PathBuf, bytes_max: u64) -> Result<Self, CacheError> {
        let io = |source| CacheError::Io { dir: dir.clone(), source };
        DirBuilder::new().mode(0o700).recursive(true).create(&dir).map_err(io)?;
        let metadata = fs::metadata(&dir).map_err(io)?;
        // A user who can write here decides what the agents run.
        if !trust::is_private(&metadata) {
            return Err(CacheError::Writable { dir });
        }
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(io)?;
        let store = Self { boot: boot.chars().take(8).collect(), dir: dir.clone(), bytes_max };
        scratch::remove_abandoned(&dir, TEMP_PREFIX).map_err(io)?;
        scratch::remove_abandoned(&dir, TRASH_PREFIX).map_err(io)?;
        for name in store.names().map_err(io)? {
            if boot_of(&name).is_some_and(|boot| boot != store.boot) {
                store.remove(&name);
            }
        }
        Ok(store)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The name of the folder for an archive of that size and digest.
    pub(super) fn name(&self, tool: &ToolName, size: u64, digest: u64) -> String {
        format!("{tool}-{}-{size:x}-{digest:016x}", self.boot)
    }

    /// A folder to unpack in. The lock on it keeps cleaners and evictors away as long as it is held.
    pub(super) fn scratch(&self) -> io::Result<Scratch> {
        match Scratch::create(&self.dir, TEMP_PREFIX) {
            // The cache was cleared by removing its whole folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().mode(0o700).recursive(true).create(&self.dir)?;
                Scratch::create(&self.dir, TEMP_PREFIX)
            }
            made => made,
        }
    }

    /// Whether an entry of this name exists.
    pub(super) fn holds(&self, name: &str) -> bool {
        self.dir.join(name).symlink_metadata().is_ok()
    }

    /// Opens an unpacked tool; `None` if there is none, or if it does not match its archive. Contents are compared by
    /// [`Entry::is_right`].
    pub(super) fn find(&self, tool: &ToolName, name: &str, inventory: &Inventory) -> io::Result<Option<Entry>> {
        let folder = self.dir.join(name);
        let root = match open_folder(&folder.join(tool.as_str())) {
            Ok(root) => root,
            Err(Errno::NOENT) => {
                // A folder without its tool would block a new one forever.
                if folder.exists() {
                    self.remove(name);
                }
                return Ok(None);
            }
            Err(errno) => return Err(errno.into()),
        };
        let complete = |manifest: &Manifest| read_size(&folder) == Some(manifest.size);
        match Manifest::read(root.as_fd(), inventory) {
            Ok(manifest) if complete(&manifest) => Ok(Some(Entry::new(name, root, manifest))),
            Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => Err(error),
            // It was removed or changed meanwhile.
            Ok(_) | Err(_) => {
                self.discard(tool, name, &root);
                Ok(None)
            }
        }
    }

    /// Gives an unpacked tool its name. Also returns the lock on it: until that is dropped it is not evicted. `None` if
    /// another process was faster.
    pub(super) fn publish(
        &self,
        scratch: Scratch,
        tool: &ToolName,
        name: &str,
        inventory: &Inventory,
    ) -> io::Result<Option<(Entry, Option<OwnedFd>)>> {
        let root = open_folder(&scratch.path().join(tool.as_str()))?;
        let manifest = Manifest::read(root.as_fd(), inventory)?;
        let Size { entries, bytes } = manifest.size;
        fs::write(scratch.path().join(SIZE_NAME), format!("{entries} {bytes}\n"))?;
        match scratch.rename(&self.dir.join(name)) {
            Ok(lock) => Ok(Some((Entry::new(name, root, manifest), lock))),
            Err(error) if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes a broken unpacked tool, unless it has been replaced by a new one.
    pub(super) fn discard(&self, tool: &ToolName, name: &str, root: &OwnedFd) {
        let same = fs::symlink_metadata(self.dir.join(name).join(tool.as_str()))
            .is_ok_and(|now| fstat(root).is_ok_and(|broken| (broken.st_dev, broken.st_ino) == (now.dev(), now.ino())));
        if same {
            self.remove(name);
        }
    }

    /// Records that a tool has just been used.
    pub(super) fn touch(&self, name: &str) {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        // It may have been evicted; the copy in progress detects that.
        let _ = utimensat(CWD, self.dir.join(name), &times, AtFlags::SYMLINK_NOFOLLOW);
    }

    /// Removes the least recently used tools until the rest fits, except locked ones.
    pub(super) fn evict(&self) -> io::Result<()> {
        let lock = fs::OpenOptions::new().create(true).append(true).open(self.dir.join(LOCK_NAME))?;
        if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(());
        }
        let mut found: Vec<(SystemTime, String, u64)> = Vec::new();
        for name in self.names()? {
            let folder = self.dir.join(&name);
            if boot_of(&name).is_some()
                && let Ok(used) = fs::symlink_metadata(&folder).and_then(|metadata| metadata.modified())
            {
                let bytes = read_size(&folder).map_or(0, |size| size.bytes.saturating_add(size.entries * ENTRY_BYTES));
                found.push((used, name, bytes));
            }
        }
        let mut total: u64 = found.iter().map(|(_, _, bytes)| bytes).sum();
        found.sort();
        for (_, name, bytes) in found {
            if total <= self.bytes_max {
                break;
            }
            if let Ok(Some(_lock)) = scratch::lock(&self.dir.join(&name)) {
                self.remove(&name);
                total -= bytes;
            }
        }
        Ok(())
    }

    /// Moves a folder away with one rename, then removes it: a reader finds all of it or none.
    fn remove(&self, name: &str) {
        let (folder, trash) = (self.dir.join(name), scratch::unique(&self.dir, TRASH_PREFIX));
        let rename = || fs::rename(&folder, &trash);
        let renamed = match rename() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && removal::unmount(&folder) => rename(),
            other => other,
        };
        match renamed {
            Ok(()) => scratch::remove(&trash),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => log::warn!("cannot remove {name} from {}: {error}", self.dir.display()),
        }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for item in fs::read_dir(&self.dir)? {
            names.extend(item?.file_name().into_string());
        }
        Ok(names)
    }
}

/// The boot in the name of a cached tool; `None` for a name of any other form, which is left alone.
fn boot_of(name: &str) -> Option<&str> {
    let mut parts = name.rsplitn(4, '-');
    let (digest, size, boot, tool) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let ours = digest.len() == 16 && boot.len() == 8 && [digest, size, boot].into_iter().all(hex);
    (ours && ToolName::new(tool).is_ok()).then_some(boot)
}

fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

fn read_size(folder: &Path) -> Option<Size> {
    let text = fs::read_to_string(folder.join(SIZE_NAME)).ok()?;
    let (entries, bytes) = text.trim_end().split_once(' ')?;
    Some(Size { entries: entries.parse().ok()?, bytes: bytes.parse().ok()? })
}
