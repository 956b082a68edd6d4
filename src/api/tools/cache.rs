//! Unpacked tools, kept for later tasks: each archive is unpacked once per host, and each task gets a private copy.
//!
//! Entries are found by the content of the archive. Reading it each time would be slow, so a process remembers the inode, size
//! and times that belong to a content. While `stat` returns the same, no file is opened. An archive that was written within the
//! last few seconds is read again each time, because a second write could fall into the same tick of the clock.
//!
//! Each run sees one whole version of its archive. The archive is opened once, and the unpacked bytes must have the digest in the
//! name of the entry. If the file was written to meanwhile, everything is repeated. Replacing an archive with a rename is always
//! safe. Overwriting it in place is not: a run at that moment may find it damaged.
//!
//! A tool runs as the user of the agent and can write to the cache. So unpacked tools are not trusted: a process compares
//! each with the archive when it first finds it, and with the state of its files at each copy. A changed tool is dropped
//! and unpacked again. A tool that changes the archive itself, or the memory of an agent, is out of scope.

mod copy;
mod manifest;
mod snapshot;
mod source;
mod store;
mod version;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use copy::{Copier, CopyError};
pub use snapshot::{SnapshotFile, SnapshotFolder, ToolSnapshot};
use source::Source;
pub use source::open_archive;
use store::{Entry, Store};
use version::OwnDigests;
pub use version::{ToolVersion, used_mark};

use super::archive::{inventory, unpack_with_inventory};
use super::{Limits, ToolError};
use base::Mono;
use proc::clock;
use proc::files::file_stamp::FileStamp;

/// How often a tool is loaded again when its archive or its entry changes meanwhile.
const ATTEMPTS: usize = 8;

/// Resolution of the time of last use on disk. Finer times would not change what is evicted.
const TOUCH_INTERVAL: Duration = Duration::from_mins(1);

/// Tools that a process remembers. Each holds one descriptor; forgetting one costs one read of the archive.
const KNOWN_TOOLS_MAX: usize = 64;

/// Files, folders and links that a process remembers, of all tools together; about 100 bytes each.
const KNOWN_ENTRIES_MAX: u64 = 200_000;

/// The size of an unpacked tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Files, folders and links in the tool's folder.
    pub entries: u64,
    /// Bytes of its files.
    pub bytes: u64,
}

/// A tool that was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Size of the copy.
    pub size: Size,
    /// Whether the archive had to be unpacked for it.
    pub unpacked: bool,
}

/// Why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The folder belongs to another user, or other users can write to it.
    #[error("the tool cache {} must belong to the user of the agent and be writable by no other user", .dir.display())]
    Writable {
        /// Path of the folder.
        dir: PathBuf,
    },
    /// The folder cannot be made or read.
    #[error("cannot use {} as tool cache: {source}", .dir.display())]
    Io {
        /// Path of the folder.
        dir: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// The tools of one host, as one process sees them. Any number of processes and threads may share the folder.
pub struct ToolCache {
    tools_dir: PathBuf,
    limits: Limits,
    store: Store,
    copier: Copier,
    known: Mutex<BTreeMap<ToolVersion, Known>>,
    own: OwnDigests,
    /// The folders with fetched versions: that of the agents, which may remove damaged ones, and the store of a controller.
    fetched_dirs: [PathBuf; 2],
}

/// What a process remembers of a tool.
struct Known {
    identity: FileStamp,
    /// Whether the identity implies the content (see [`Source::settled`]).
    settled: bool,
    entry: Arc<Entry>,
    used: Mono,
    touched: Mono,
}

/// A tool that is ready to be copied.
struct Loaded {
    entry: Arc<Entry>,
    /// Keeps a new entry from being evicted before its first copy is made, by this process or another.
    _lock: Option<OwnedFd>,
    unpacked: bool,
}

impl ToolCache {
    /// Opens the cache in `cache_dir`, creating it if it is missing, and cleans up after dead processes. `tools_dir` is
    /// read for each task and need not exist yet. `cache_bytes_max` is the maximum size on disk, in bytes.
    ///
    /// # Errors
    /// When the folder cannot be used, or other users can write to it.
    pub fn new(
        cache_dir: PathBuf,
        tools_dir: PathBuf,
        limits: Limits,
        cache_bytes_max: u64,
    ) -> Result<Self, CacheError> {
        let store = Store::open(cache_dir, cache_bytes_max)?;
        let (known, own, fetched_dirs) = (Mutex::default(), OwnDigests::default(), Default::default());
        Ok(Self { tools_dir, limits, store, copier: Copier::new(), known, own, fetched_dirs })
    }

    /// Adds the folders of fetched versions: `fetched` of the agents, and `store` of a controller of the same home.
    #[must_use]
    pub fn with_fetched(mut self, fetched: PathBuf, store: PathBuf) -> Self {
        self.fetched_dirs = [fetched, store];
        self
    }

    /// Makes a private copy of the tool as `into/<tool>/`, which must not exist, from the present archive. `stop` is
    /// checked for each file, and while unpacking for each 64 KiB. On an error `into` is left empty.
    ///
    /// # Errors
    /// See [`ToolError`]; [`ToolError::exit_code`] is the exit code of the run.
    pub fn place(&self, version: impl Into<ToolVersion>, into: &Path, stop: &AtomicBool) -> Result<Placed, ToolError> {
        let version = &version.into();
        if let Some(entry) = self.current(version)
            && self.copy(&entry, version, into, stop)?
        {
            return Ok(Placed { size: entry.manifest.size, unpacked: false });
        }
        for _ in 0..ATTEMPTS {
            let Loaded { entry, _lock, unpacked } = self.load(version, stop)?;
            if self.copy(&entry, version, into, stop)? {
                if unpacked && let Err(error) = self.store.evict() {
                    log::warn!("cannot evict from {}: {error}", self.store.dir().display());
                }
                return Ok(Placed { size: entry.manifest.size, unpacked });
            }
        }
        let cause = io::Error::other("the unpacked tool keeps disappearing");
        Err(ToolError::io("store a tool in", self.store.dir(), cause))
    }

    /// The size of the copy that [`Self::place`] would make, if this process knows the tool and its archive has not changed;
    /// `None` if it would have to read the archive first, and perhaps unpack it. Costs one `stat`. In the first seconds after the
    /// archive was written, [`Self::place`] also reads the archive, though it does not unpack it.
    #[must_use]
    pub fn is_warm(&self, version: impl Into<ToolVersion>) -> Option<Size> {
        let version = &version.into();
        let identity = self.stamp(version)?;
        let known = self.known();
        known.get(version).filter(|known| known.identity == identity).map(|known| known.entry.manifest.size)
    }

    /// The whole of a tool, if it is small and certain to match its present archive. Costs one `stat`.
    #[must_use]
    pub fn snapshot(&self, version: impl Into<ToolVersion>) -> Option<Arc<ToolSnapshot>> {
        let version = &version.into();
        self.current(version)?.snapshot(&version.tool)
    }

    /// The cached entry, if it is certain to match the present archive.
    fn current(&self, version: &ToolVersion) -> Option<Arc<Entry>> {
        let identity = self.stamp(version)?;
        let now = clock::now().mono;
        let mut known = self.known();
        let known = known.get_mut(version).filter(|known| known.settled && known.identity == identity)?;
        known.used = now;
        if now.since(known.touched) >= TOUCH_INTERVAL {
            known.touched = now;
            self.store.touch(&known.entry.name);
            self.note_use(version);
        }
        Some(Arc::clone(&known.entry))
    }

    /// Copies an entry; false if it is broken, and therefore dropped.
    fn copy(&self, entry: &Entry, version: &ToolVersion, into: &Path, stop: &AtomicBool) -> Result<bool, ToolError> {
        let tool = &version.tool;
        let copied = match entry.is_right() {
            Ok(true) => self.copier.copy(entry.root.as_fd(), &entry.manifest, tool, into, stop),
            Ok(false) => Err(CopyError::Changed),
            Err(_) => Err(CopyError::Broken),
        };
        match copied {
            Ok(()) => Ok(true),
            Err(broken @ (CopyError::Broken | CopyError::Changed)) => {
                if matches!(broken, CopyError::Changed) {
                    log::warn!("the unpacked tool {} was changed by another program; unpacking it anew", entry.name);
                }
                self.known().remove(version);
                self.store.discard(tool, &entry.name, &entry.root);
                Ok(false)
            }
            Err(CopyError::Stopped) => Err(ToolError::Stopped),
            Err(CopyError::Io(cause)) => Err(ToolError::io("copy the tool to", &into.join(tool.as_str()), cause)),
        }
    }

    /// Opens the archive and finds the entry that was unpacked from it, or unpacks it.
    fn load(&self, version: &ToolVersion, stop: &AtomicBool) -> Result<Loaded, ToolError> {
        for _ in 0..ATTEMPTS {
            let source = match &version.fetched {
                None => Source::open(&self.tools_dir, &version.tool)?,
                Some(digest) => Source::fetched(self.path(version), digest)?,
            };
            match self.load_from(&source, version, stop) {
                Ok(Some(loaded)) if source.is_unchanged() => {
                    self.remember(version, &source, &loaded.entry);
                    return Ok(loaded);
                }
                Err(ToolError::Stopped) => return Err(ToolError::Stopped),
                Err(error) if source.is_unchanged() => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        Err(ToolError::Changing { archive: self.path(version) })
    }

    /// `None` if the archive or the entry changed meanwhile.
    fn load_from(
        &self,
        source: &Source,
        version: &ToolVersion,
        stop: &AtomicBool,
    ) -> Result<Option<Loaded>, ToolError> {
        let tool = &version.tool;
        let archive_error = |cause| ToolError::from_archive(&source.path, cause);
        let cache_error = |cause: io::Error| ToolError::io("store a tool in", self.store.dir(), cause);
        let digest = source.digest(&self.limits, stop).map_err(archive_error)?;
        let name = self.store.name(tool, source.identity.size, digest);
        let known = self.known().get(version).map(|known| Arc::clone(&known.entry)).filter(|entry| entry.name == name);
        let found = match known {
            Some(entry) => Some(entry),
            // Any task may have changed it since it was unpacked.
            None if self.store.holds(&name) => {
                let (inventory, listed_digest) =
                    inventory(&source.file, tool, &self.limits, stop).map_err(archive_error)?;
                if listed_digest != digest {
                    return Ok(None);
                }
                self.store.find(tool, &name, &inventory).map_err(cache_error)?.map(Arc::new)
            }
            None => None,
        };
        if let Some(entry) = found {
            return Ok(Some(Loaded { entry, _lock: None, unpacked: false }));
        }
        let scratch = self.store.scratch().map_err(cache_error)?;
        let unpacked = unpack_with_inventory(&source.file, tool, scratch.path(), &self.limits, stop);
        let (_, inventory, unpacked_digest) = unpacked.map_err(archive_error)?;
        if unpacked_digest != digest {
            return Ok(None);
        }
        let published = self.store.publish(scratch, tool, &name, &inventory).map_err(cache_error)?;
        Ok(published.map(|(entry, lock)| Loaded { entry: Arc::new(entry), _lock: lock, unpacked: true }))
    }

    fn remember(&self, version: &ToolVersion, source: &Source, entry: &Arc<Entry>) {
        self.store.touch(&entry.name);
        let now = clock::now().mono;
        let (identity, settled) = (source.identity, source.settled);
        let mut known = self.known();
        known.insert(version.clone(), Known { identity, settled, entry: Arc::clone(entry), used: now, touched: now });
        let entries = |known: &BTreeMap<ToolVersion, Known>| -> u64 {
            known.values().map(|known| known.entry.manifest.size.entries).sum()
        };
        while known.len() > 1 && (known.len() > KNOWN_TOOLS_MAX || entries(&known) > KNOWN_ENTRIES_MAX) {
            let oldest = known.iter().filter(|(name, _)| *name != version).min_by_key(|(_, known)| known.used);
            let Some(oldest) = oldest.map(|(name, _)| name.clone()) else { break };
            known.remove(&oldest);
        }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<ToolVersion, Known>> {
        // No code that could panic leaves the map half changed.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
