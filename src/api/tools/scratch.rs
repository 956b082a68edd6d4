//! A private folder with a unique name, removed when it is dropped, and a cleanup of the folders of dead processes.
//!
//! The process that makes the folder holds a lock on it while it lives. A process id would not show that: ids are reused, and
//! agents in different containers may share a folder without seeing each other's processes.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, openat};

use proc::files::removal;

/// How often another name is tried when a cleanup removes the folder before it is locked.
const ATTEMPTS: usize = 16;

/// The folder. Dropping it removes it with its contents.
pub struct Scratch {
    path: PathBuf,
    lock: Option<OwnedFd>,
}

impl Scratch {
    /// Makes `<parent>/<prefix><pid>-<random>`, with mode 0700.
    pub fn create(parent: &Path, prefix: &str) -> io::Result<Self> {
        for _ in 0..ATTEMPTS {
            let path = unique(parent, prefix);
            DirBuilder::new().mode(0o700).create(&path)?;
            if let Some(lock) = lock(&path)? {
                return Ok(Self { path, lock: Some(lock) });
            }
        }
        Err(io::Error::other("newly made folders keep disappearing"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the folder another name, under which it stays. Returns the lock on it.
    pub(crate) fn rename(mut self, to: &Path) -> io::Result<Option<OwnedFd>> {
        fs::rename(&self.path, to)?;
        self.path = PathBuf::new();
        Ok(self.lock.take())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.path != Path::new("") {
            remove(&self.path);
        }
    }
}

/// A name that no other process uses.
pub(crate) fn unique(parent: &Path, prefix: &str) -> PathBuf {
    parent.join(format!("{prefix}{}-{:016x}", std::process::id(), rand::random::<u64>()))
}

/// Takes the lock on a folder; `None` when it is held or the folder is gone.
pub(crate) fn lock(path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match openat(rustix::fs::CWD, path, flags, Mode::empty()) {
        Ok(folder) => folder,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    let here = fs::symlink_metadata(path)
        .is_ok_and(|now| fstat(&folder).is_ok_and(|locked| (locked.st_dev, locked.st_ino) == (now.dev(), now.ino())));
    Ok(here.then_some(folder))
}

/// Removes the folders with `prefix` in `parent` that no living process holds.
pub fn remove_abandoned(parent: &Path, prefix: &str) -> io::Result<()> {
    for item in fs::read_dir(parent)? {
        let item = item?;
        if item.file_name().as_encoded_bytes().starts_with(prefix.as_bytes())
            && let Ok(Some(_lock)) = lock(&item.path())
        {
            remove(&item.path());
        }
    }
    Ok(())
}

/// Removes a folder, even if another process is removing it at the same time.
pub(crate) fn remove(path: &Path) {
    if let Err(error) = removal::remove_and_unmount(path) {
        log::warn!("{error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_dead_maker_left_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let alive = Scratch::create(parent.path(), ".tmp-").unwrap();
        fs::create_dir_all(parent.path().join(".tmp-1-dead/deep")).unwrap();
        fs::create_dir(parent.path().join("other")).unwrap();
        remove_abandoned(parent.path(), ".tmp-").unwrap();
        assert!(alive.path().exists());
        assert!(!parent.path().join(".tmp-1-dead").exists());
        assert!(parent.path().join("other").exists());
        let path = alive.path().to_owned();
        drop(alive);
        assert!(!path.exists());
    }
}
