//! The archive in the tools folder: opened once, and recognised by its `stat` data.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use crate::tools::archive::{Packed, Watch};
use crate::tools::{ArchiveError, Limits, ToolError};
use base::{ToolDigest, ToolName};
use proc::clock;
use proc::files::file_digest::digest_of;
use proc::files::file_stamp::FileStamp;

/// An open archive.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) identity: FileStamp,
    /// Whether the same identity later implies the same content.
    pub(super) settled: bool,
}

impl Source {
    /// Opens `<tools_dir>/<tool>.tar.gz`. A symbolic link is followed as long as it stays in the tools folder, as in
    /// `convert.tar.gz -> convert-2.1.tar.gz`. Opening never blocks, whatever the kind of file.
    pub(super) fn open(tools_dir: &Path, tool: &ToolName) -> Result<Self, ToolError> {
        let path = tools_dir.join(tool.archive_name());
        let file = match open_beneath(tools_dir, &tool.archive_name()) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::NOTDIR) => return Err(ToolError::Missing { archive: path }),
            Err(Errno::XDEV | Errno::LOOP) => return Err(ToolError::Outside { archive: path }),
            // The name belongs to a socket, or to a FIFO without a reader.
            Err(Errno::NXIO) => return Err(ToolError::Unpack { archive: path, source: ArchiveError::NotFile }),
            Err(errno) => return Err(ToolError::io("open", &path, errno)),
        };
        let metadata = file.metadata().map_err(|cause| ToolError::io("stat", &path, cause))?;
        let identity = FileStamp::from(&metadata);
        let settled = identity.is_settled_in(&file, clock::now().wall);
        Ok(Self { path, file, identity, settled })
    }

    /// Opens a fetched version. A file with the wrong bytes is removed if possible, and counts as missing.
    pub(super) fn fetched(path: PathBuf, digest: &ToolDigest) -> Result<Self, ToolError> {
        let failed = |cause: io::Error| ToolError::io("read", &path, cause);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Err(ToolError::Missing { archive: path }),
            Err(cause) => return Err(failed(cause)),
        };
        let identity = FileStamp::from(&file.metadata().map_err(failed)?);
        if digest_of(&file).map_err(failed)? != *digest {
            log::warn!("{} has other bytes than its name says; it is fetched again", path.display());
            let _ = fs::remove_file(&path);
            return Err(ToolError::Missing { archive: path });
        }
        let settled = identity.is_settled_in(&file, clock::now().wall);
        Ok(Self { path, file, identity, settled })
    }

    /// The digest of the content.
    pub(super) fn digest(&self, limits: &Limits, stop: &AtomicBool) -> Result<u64, ArchiveError> {
        Packed::new(&self.file, limits, Watch::start(limits.timeout, stop))?.digest_all()
    }

    /// Whether the open file has not been written to since. The change time is ignored, because it moves when a newer version
    /// takes the name of the file. The open file is still a complete version then.
    pub(super) fn is_unchanged(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| {
            let now = FileStamp::from(&metadata);
            (now.size, now.modified) == (self.identity.size, self.identity.modified)
        })
    }
}

/// Opens the archive of a tool: the file, its `stat` data, and whether a later change is certain to alter these.
pub fn open_archive(tools_dir: &Path, tool: &ToolName) -> Result<(File, FileStamp, bool), ToolError> {
    let Source { path, file, identity, settled } = Source::open(tools_dir, tool)?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err(ToolError::Unpack { archive: path, source: ArchiveError::NotFile });
    }
    Ok((file, identity, settled))
}

fn open_beneath(folder: &Path, name: &str) -> Result<File, Errno> {
    // How often the kernel may report a concurrent rename.
    const ATTEMPTS: usize = 8;
    let folder_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(rustix::fs::CWD, folder, folder_flags, Mode::empty())?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..ATTEMPTS {
        match openat2(&folder, name, flags, Mode::empty(), beneath) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // There is no openat2: the kernel is old, or a container forbids unknown calls. No link is followed then.
            Err(Errno::NOSYS | Errno::PERM) => {
                return openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty()).map(File::from);
            }
            opened => return opened.map(File::from),
        }
    }
    Err(Errno::AGAIN)
}
