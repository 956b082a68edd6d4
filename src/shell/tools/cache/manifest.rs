//! The list of what an unpacked tool holds, read once per process, so that a copy need not look around.

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, readlinkat, statat};

use super::Size;

/// One file, folder or link. Paths are relative to the tool's folder.
pub(super) enum Item {
    Folder { path: CString, mode: Mode },
    File { path: CString, mode: Mode, bytes: u64 },
    Symlink { path: CString, target: CString },
}

/// Everything in a tool's folder, each folder before what it holds.
pub(super) struct Manifest {
    /// Mode of the tool's folder itself.
    pub(super) mode: Mode,
    pub(super) items: Vec<Item>,
    pub(super) size: Size,
    /// Bytes of the largest file.
    pub(super) largest: u64,
}

impl Manifest {
    /// Reads the tree below `root`.
    pub(super) fn read(root: BorrowedFd<'_>) -> io::Result<Self> {
        let mode = Mode::from_raw_mode(fstat(root)?.st_mode);
        let mut manifest = Self { mode, items: Vec::new(), size: Size { entries: 0, bytes: 0 }, largest: 0 };
        let mut folders = vec![CString::default()];
        while let Some(folder) = folders.pop() {
            manifest.read_folder(root, &folder, &mut folders)?;
        }
        Ok(manifest)
    }

    fn read_folder(&mut self, root: BorrowedFd<'_>, folder: &CString, folders: &mut Vec<CString>) -> io::Result<()> {
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
            self.items.push(match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    folders.push(path.clone());
                    Item::Folder { path, mode }
                }
                FileType::RegularFile => {
                    let bytes = u64::try_from(stat.st_size).unwrap_or_default();
                    self.size.bytes += bytes;
                    self.largest = self.largest.max(bytes);
                    Item::File { path, mode, bytes }
                }
                FileType::Symlink => Item::Symlink { target: readlinkat(root, &path, Vec::new())?, path },
                _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "the cached tool holds a special file")),
            });
        }
        Ok(())
    }
}
