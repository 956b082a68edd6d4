//! A small tool as it was unpacked, completely in memory: a used folder is compared with it before it is reused.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use rustix::fs::{Mode, openat};
use rustix::io::{Errno, read};

use super::manifest::{FILE, Item, Manifest};
use crate::tools::archive::{Seal, Sealer};
use base::ToolName;

/// Larger tools cost as much to compare as to copy: each entry is five system calls, and each 64 KiB about 10 µs.
const ENTRIES_MAX: u64 = 16;
const BYTES_MAX: u64 = 64 * 1024;

/// The folders and files of a tool. Paths are relative to the tool's folder, whose own path is ".".
#[derive(Debug)]
pub struct ToolSnapshot {
    tool: ToolName,
    content: String,
    folders: Vec<SnapshotFolder>,
    files: Vec<SnapshotFile>,
}

/// A folder, and the names of its entries.
#[derive(Debug)]
pub struct SnapshotFolder {
    path: CString,
    names: Vec<CString>,
}

/// A file with its content.
#[derive(Debug)]
pub struct SnapshotFile {
    path: CString,
    bytes: Vec<u8>,
}

impl ToolSnapshot {
    /// Reads an unpacked tool. `None` if it is large, or contains a link: a descriptor of a link does not show whether its
    /// attributes were changed.
    pub(super) fn read(
        tool: &ToolName,
        content: &str,
        root: BorrowedFd<'_>,
        manifest: &Manifest,
    ) -> io::Result<Option<Self>> {
        if manifest.size.entries > ENTRIES_MAX || manifest.size.bytes > BYTES_MAX {
            return Ok(None);
        }
        let mut snapshot = Self { content: content.to_owned(), ..Self::empty(tool.clone()) };
        for item in &manifest.items {
            let path = match item {
                Item::Symlink { .. } => return Ok(None),
                Item::Folder { path, .. } => {
                    snapshot.folders.push(SnapshotFolder { path: path.clone(), names: Vec::new() });
                    path
                }
                Item::File { path, bytes, seal, .. } => {
                    let bytes = read_file(root, path, *bytes, *seal)?;
                    snapshot.files.push(SnapshotFile { path: path.clone(), bytes });
                    path
                }
            };
            snapshot.name(path);
        }
        Ok(Some(snapshot))
    }

    /// An empty folder, for the operation that needs no tool.
    #[must_use]
    pub fn empty(operation: ToolName) -> Self {
        let own = SnapshotFolder { path: c".".into(), names: Vec::new() };
        Self { content: operation.as_str().to_owned(), tool: operation, folders: vec![own], files: Vec::new() }
    }

    /// The files of a folder that no cache has unpacked, if they are small.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn of_folder(tool: &ToolName, folder: &Path) -> io::Result<Option<Self>> {
        let root = File::open(folder)?;
        let manifest = Manifest::of_folder(root.as_fd())?;
        Self::read(tool, tool.as_str(), root.as_fd(), &manifest)
    }

    /// Adds a name to its parent folder.
    fn name(&mut self, path: &CStr) {
        let bytes = path.to_bytes();
        let (parent, name) = match bytes.iter().rposition(|&byte| byte == b'/') {
            Some(at) => (bytes.get(..at).unwrap_or_default(), bytes.get(at + 1..).unwrap_or_default()),
            None => (&b"."[..], bytes),
        };
        let holder = self.folders.iter_mut().find(|folder| folder.path.as_bytes() == parent);
        if let (Some(folder), Ok(name)) = (holder, CString::new(name)) {
            folder.names.push(name);
        }
    }

    /// Name of the tool.
    #[must_use]
    pub const fn tool(&self) -> &ToolName {
        &self.tool
    }

    /// An identifier of the content, different for each version of the tool.
    #[must_use]
    pub fn content(&self) -> &str {
        &self.content
    }

    /// Its folders, the tool's own first, and each before its contents.
    #[must_use]
    pub fn folders(&self) -> &[SnapshotFolder] {
        &self.folders
    }

    /// Its files.
    #[must_use]
    pub fn files(&self) -> &[SnapshotFile] {
        &self.files
    }
}

impl SnapshotFolder {
    /// Path of the folder.
    #[must_use]
    pub fn path(&self) -> &CStr {
        &self.path
    }

    /// Whether an entry of this name belongs there.
    #[must_use]
    pub fn holds(&self, name: &CStr) -> bool {
        self.names.iter().any(|known| known.as_c_str() == name)
    }
}

impl SnapshotFile {
    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &CStr {
        &self.path
    }

    /// Content of the file.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

fn read_file(root: BorrowedFd<'_>, path: &CStr, size: u64, seal: Seal) -> io::Result<Vec<u8>> {
    let file = openat(root, path, FILE, Mode::empty())?;
    // One byte more, so that a file that grew is detected.
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default() + 1];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match read(&file, rest) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    bytes.truncate(filled);
    let mut sealer = Sealer::new();
    sealer.add(&bytes);
    if sealer.seal() != seal {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it has changed"));
    }
    Ok(bytes)
}
