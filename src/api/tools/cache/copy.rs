//! Copies an unpacked tool into a task's folder: by reflink if the file system can, otherwise byte by byte.
//!
//! It never uses hard links: the copy belongs to the task, which may write to it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, chmodat, copy_file_range, fchmod, ioctl_ficlone, mkdirat, openat, symlinkat};
use rustix::io::{Errno, read, write};

use super::manifest::{FILE, FileState, Item, Manifest};
use crate::tools::scratch;
use base::ToolName;

/// Files up to this size are read and written at once, which is faster than a reflink or a copy by the kernel.
const SMALL_BYTES: u64 = 128 * 1024;

/// Bytes that are copied between two checks of the stop flag.
const RANGE_BYTES: usize = 8 * 1024 * 1024;

/// Bytes that are read and written at once if the kernel cannot copy by itself.
const BUFFER_BYTES: usize = 256 * 1024;

/// Why a tool was not copied.
pub(super) enum CopyError {
    /// The unpacked tool does not match the manifest: it was evicted or modified.
    Broken,
    /// A file was changed after it was unpacked.
    Changed,
    /// The stop flag was set.
    Stopped,
    /// The file system refused, most likely a write.
    Io(io::Error),
}

impl From<Errno> for CopyError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// Copies tools, and remembers what the file systems do not support.
pub(super) struct Copier {
    reflink: AtomicBool,
    copy_range: AtomicBool,
}

impl Copier {
    pub(super) const fn new() -> Self {
        Self { reflink: AtomicBool::new(true), copy_range: AtomicBool::new(true) }
    }

    /// Copies the tree below `from` to `into/<tool>`, which must not exist. On an error no part of it is left.
    pub(super) fn copy(
        &self,
        from: BorrowedFd<'_>,
        manifest: &Manifest,
        tool: &ToolName,
        into: &Path,
        stop: &AtomicBool,
    ) -> Result<(), CopyError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = openat(rustix::fs::CWD, into, flags, Mode::empty())?;
        mkdirat(&parent, tool.as_str(), manifest.mode)?;
        chmodat(&parent, tool.as_str(), manifest.mode, AtFlags::empty())?;
        let copied = openat(&parent, tool.as_str(), flags | OFlags::NOFOLLOW, Mode::empty())
            .map_err(CopyError::from)
            .and_then(|to| self.copy_items(from, manifest, to.as_fd(), stop));
        if copied.is_err() {
            scratch::remove(&into.join(tool.as_str()));
        }
        copied
    }

    fn copy_items(
        &self,
        from: BorrowedFd<'_>,
        manifest: &Manifest,
        to: BorrowedFd<'_>,
        stop: &AtomicBool,
    ) -> Result<(), CopyError> {
        // One byte more than the largest small file, so that a file that grew is detected in one read.
        let mut buffer = vec![0; usize::try_from(manifest.largest.min(SMALL_BYTES)).unwrap_or_default() + 1];
        for item in &manifest.items {
            if stop.load(Ordering::Relaxed) {
                return Err(CopyError::Stopped);
            }
            match item {
                // Our umask is for our own files.
                Item::Folder { path, mode } => {
                    mkdirat(to, path, *mode)?;
                    chmodat(to, path, *mode, AtFlags::empty())?;
                }
                Item::Symlink { path, target } => symlinkat(target, to, path)?,
                Item::File { path, mode, bytes, state, .. } => {
                    let source = openat(from, path, FILE, Mode::empty()).map_err(broken)?;
                    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let target = openat(to, path, flags, *mode)?;
                    fchmod(&target, *mode)?;
                    let copied = if *bytes <= SMALL_BYTES {
                        copy_small(&source, &target, *bytes, &mut buffer)
                    } else {
                        self.copy_large(&source, &target, *bytes, stop)
                    };
                    // Checked afterwards, so that a change during the read is detected, too. A folder in its place cannot
                    // even be read.
                    if FileState::of(&source).map_err(CopyError::Io)? != *state {
                        return Err(CopyError::Changed);
                    }
                    copied?;
                }
            }
        }
        Ok(())
    }

    fn copy_large(&self, from: &OwnedFd, to: &OwnedFd, bytes: u64, stop: &AtomicBool) -> Result<(), CopyError> {
        if self.reflink.load(Ordering::Relaxed) {
            match ioctl_ficlone(to, from) {
                Ok(()) => return same_size(to, bytes),
                // The file system does not support reflinks. The errors for that differ, and every file would fail.
                Err(_) => self.reflink.store(false, Ordering::Relaxed),
            }
        }
        let (mut copied, mut buffer) = (0, Vec::new());
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(CopyError::Stopped);
            }
            match self.copy_chunk(from, to, &mut buffer)? {
                0 if copied == bytes => return Ok(()),
                0 => return Err(CopyError::Broken),
                n => copied += n as u64,
            }
        }
    }

    /// Copies some bytes from the present positions of the two files; 0 at the end.
    fn copy_chunk(&self, from: &OwnedFd, to: &OwnedFd, buffer: &mut Vec<u8>) -> Result<usize, CopyError> {
        if self.copy_range.load(Ordering::Relaxed) {
            match retry(|| copy_file_range(from, None, to, None, RANGE_BYTES)) {
                Err(Errno::XDEV | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL | Errno::PERM) => {
                    self.copy_range.store(false, Ordering::Relaxed);
                }
                copied => return Ok(copied?),
            }
        }
        buffer.resize(BUFFER_BYTES, 0);
        let n = retry(|| read(from, buffer.as_mut_slice()))?;
        write_all(to, &buffer[..n])?;
        Ok(n)
    }
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

fn same_size(file: &OwnedFd, bytes: u64) -> Result<(), CopyError> {
    let size = u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or_default();
    if size == bytes { Ok(()) } else { Err(CopyError::Broken) }
}

fn copy_small(from: &OwnedFd, to: &OwnedFd, bytes: u64, buffer: &mut [u8]) -> Result<(), CopyError> {
    let wanted = usize::try_from(bytes).unwrap_or(usize::MAX).min(buffer.len() - 1);
    let mut filled = 0;
    while filled <= wanted {
        let n = retry(|| read(from, &mut buffer[filled..=wanted]))?;
        filled += n;
        // A regular file returns fewer bytes than requested at its end only.
        if n == 0 || filled == wanted {
            break;
        }
    }
    if filled != wanted {
        return Err(CopyError::Broken);
    }
    write_all(to, &buffer[..filled])
}

fn write_all(to: &OwnedFd, mut data: &[u8]) -> Result<(), CopyError> {
    while !data.is_empty() {
        match retry(|| write(to, data))? {
            0 => return Err(CopyError::Io(io::ErrorKind::WriteZero.into())),
            n => data = &data[n..],
        }
    }
    Ok(())
}

/// The error for a source that was removed or replaced.
fn broken(errno: Errno) -> CopyError {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE | Errno::ACCESS => CopyError::Broken,
        errno => errno.into(),
    }
}
