//! The contents of an unpacked tool, read once per process, so that a copy need not list folders.
//!
//! A tool runs as the user of the agent and can write to every unpacked tool. So the list contains only entries that are also in
//! the archive. For each file it has the seal of the content and the time of the last change. The file system updates that time
//! at each change, and no call can set it.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};

use super::Size;
use crate::tools::archive::{Inventory, Part, Seal, Sealer};

/// Flags for opening a file of an unpacked tool.
pub(super) const FILE: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Bytes that are read at once to check a content.
const BUFFER_BYTES: usize = 64 * 1024;

/// One file, folder or link. Paths are relative to the tool's folder.
pub(super) enum Item {
    Folder { path: CString, mode: Mode },
    File { path: CString, mode: Mode, bytes: u64, seal: Seal, state: FileState },
    Symlink { path: CString, target: CString },
}

/// All entries of a tool's folder, each folder before its contents.
pub(super) struct Manifest {
    /// Mode of the tool's folder itself.
    pub(super) mode: Mode,
    pub(super) items: Vec<Item>,
    pub(super) size: Size,
    /// Bytes of the largest file.
    pub(super) largest: u64,
}

/// The identity of a file, and the time of its last change, in seconds and nanoseconds by the clock of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileState {
    device: u64,
    inode: u64,
    changed: (i64, i64),
}

impl FileState {
    pub(super) fn new(stat: &Stat) -> Self {
        #[expect(clippy::unnecessary_cast, reason = "the width depends on the architecture")]
        let changed = (stat.st_ctime as i64, stat.st_ctime_nsec as i64);
        Self { device: stat.st_dev, inode: stat.st_ino, changed }
    }

    pub(super) fn of(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::new(&fstat(file)?))
    }
}

impl Manifest {
    /// Reads the tree below `root`.
    ///
    /// # Errors
    /// `InvalidData` when it does not match `inventory`; contents are not compared.
    pub(super) fn read(root: BorrowedFd<'_>, inventory: &Inventory) -> io::Result<Self> {
        let manifest = Self::read_as(root, &|path| inventory.part(path).cloned())?;
        if manifest.items.len() == inventory.len() { Ok(manifest) } else { Err(changed()) }
    }

    /// Whether every file has the content in the archive. Reads all of them.
    ///
    /// # Errors
    /// When one cannot be read.
    pub(super) fn has_its_content(&self, root: BorrowedFd<'_>) -> io::Result<bool> {
        let mut buffer = vec![0; BUFFER_BYTES];
        for item in &self.items {
            let Item::File { path, seal, state, .. } = item else { continue };
            let mut file = File::from(openat(root, path, FILE, Mode::empty())?);
            let mut sealer = Sealer::new();
            loop {
                match file.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(n) => sealer.add(buffer.get(..n).unwrap_or_default()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            if sealer.seal() != *seal || FileState::of(&file)? != *state {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The time of the last change of any file, in seconds; only a change in a later second is certain to be visible.
    pub(super) fn last_change(&self) -> i64 {
        let changes = self.items.iter().map(|item| match item {
            Item::File { state, .. } => state.changed.0,
            Item::Folder { .. } | Item::Symlink { .. } => i64::MIN,
        });
        changes.max().unwrap_or(i64::MIN)
    }

    fn read_as(root: BorrowedFd<'_>, expected: &dyn Fn(&[u8]) -> Option<Part>) -> io::Result<Self> {
        let mode = Mode::from_raw_mode(fstat(root)?.st_mode);
        let mut manifest = Self { mode, items: Vec::new(), size: Size { entries: 0, bytes: 0 }, largest: 0 };
        if !is_ours(mode, Mode::RWXU) {
            return Err(changed());
        }
        let mut folders = vec![CString::default()];
        while let Some(folder) = folders.pop() {
            manifest.read_folder(root, &folder, &mut folders, expected)?;
        }
        Ok(manifest)
    }

    fn read_folder(
        &mut self,
        root: BorrowedFd<'_>,
        folder: &CString,
        folders: &mut Vec<CString>,
        expected: &dyn Fn(&[u8]) -> Option<Part>,
    ) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let path = if folder.is_empty() { c".".into() } else { folder.clone() };
        let mut dir = Dir::new(openat(root, path, flags, Mode::empty())?)?;
        while let Some(item) = dir.read() {
            let item = item?;
            let name = item.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let path = if folder.is_empty() { name.to_vec() } else { [folder.as_bytes(), b"/", name].concat() };
            let path = CString::new(path)?;
            let stat = statat(root, &path, AtFlags::SYMLINK_NOFOLLOW)?;
            let mode = Mode::from_raw_mode(stat.st_mode);
            self.size.entries += 1;
            let expected = expected(path.as_bytes()).ok_or_else(changed)?;
            self.items.push(match (FileType::from_raw_mode(stat.st_mode), expected) {
                (FileType::Directory, Part::Folder) if is_ours(mode, Mode::RWXU) => {
                    folders.push(path.clone());
                    Item::Folder { path, mode }
                }
                (FileType::RegularFile, Part::File { bytes, executable, seal })
                    if u64::try_from(stat.st_size) == Ok(bytes) && is_ours(mode, least_mode(executable)) =>
                {
                    self.size.bytes += bytes;
                    self.largest = self.largest.max(bytes);
                    Item::File { path, mode, bytes, seal, state: FileState::new(&stat) }
                }
                (FileType::Symlink, Part::Symlink { target }) => {
                    let found = readlinkat(root, &path, Vec::new())?;
                    if found.as_bytes() != target {
                        return Err(changed());
                    }
                    Item::Symlink { target: found, path }
                }
                _ => return Err(changed()),
            });
        }
        Ok(())
    }

    /// The manifest of a folder, as if its files came from an archive.
    pub(super) fn of_folder(root: BorrowedFd<'_>) -> io::Result<Self> {
        use std::os::unix::ffi::OsStrExt as _;
        Self::read_as(root, &|path| {
            let path = CString::new(path).ok()?;
            let stat = statat(root, &path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some(match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => Part::Folder,
                FileType::Symlink => Part::Symlink { target: readlinkat(root, &path, Vec::new()).ok()?.into_bytes() },
                _ => {
                    let folder = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&root));
                    let name = std::ffi::OsStr::from_bytes(path.as_bytes());
                    let content = std::fs::read(std::path::Path::new(&folder).join(name)).ok()?;
                    let mut sealer = Sealer::new();
                    sealer.add(&content);
                    Part::File { bytes: content.len() as u64, executable: false, seal: sealer.seal() }
                }
            })
        })
    }
}

/// Minimum mode of a file, so that the agent can use it.
fn least_mode(executable: bool) -> Mode {
    if executable { Mode::RWXU } else { Mode::RUSR | Mode::WUSR }
}

/// Whether unpacking can have set this mode: it has the rights of the owner, and no bit that an archive cannot request.
fn is_ours(mode: Mode, least: Mode) -> bool {
    mode.contains(least) && !mode.intersects(Mode::SUID | Mode::WGRP | Mode::WOTH)
}

/// The error for a tool that does not match the archive.
fn changed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the unpacked tool has changed")
}
