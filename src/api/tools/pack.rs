//! Packs a tool's folder into an archive. The same content results in the same bytes.
//!
//! Entries are sorted; times and owners are zero; modes are 755 or 644 by the owner's x bit, and run.sh is 755. All entries are
//! in one folder named after the tool. Hard links become files. The archive is unpacked once before it gets its name, so that any
//! archive that an agent would refuse fails here.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use flate2::{Compression, GzBuilder};
use rustix::fs::OFlags;
use tar::{Builder, EntryType, Header};

use super::archive::unpack;
use super::scratch::{self, Scratch};
use super::unpacked::check_unpacked;
use super::{ArchiveError, Limits, RUN_SCRIPT};
use base::{InvalidToolName, ToolName};

/// Folders with this prefix in the tools folder are unfinished archives.
const SCRATCH_PREFIX: &str = ".pack-";

/// The result of packing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The size of the archive in bytes.
    pub bytes: u64,
    /// The number of files, folders and links in it, including the tool's own folder.
    pub entries: u64,
    /// False when an archive with the same content existed; it is left untouched then.
    pub changed: bool,
}

/// Why a folder was not packed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// The folder's name is not a valid tool name.
    #[error("cannot pack {}: {source}", .dir.display())]
    Name {
        /// Path of the folder.
        dir: PathBuf,
        /// The error in its name.
        source: InvalidToolName,
    },
    /// The archive's name is not that of the tool.
    #[error("the archive of {tool} must be named {}, not {}", .tool.archive_name(), .out.display())]
    OutName {
        /// The archive.
        out: PathBuf,
        /// Name of the tool.
        tool: ToolName,
    },
    /// An agent would refuse the archive.
    #[error("cannot pack {}: {source}", .dir.display())]
    Refused {
        /// Path of the folder.
        dir: PathBuf,
        /// The reason. Paths in it begin with the tool's name.
        source: ArchiveError,
    },
    /// run.sh cannot be started, or `tool.toml` is wrong.
    #[error("cannot pack {}: {why}", .dir.display())]
    Invalid {
        /// The folder.
        dir: PathBuf,
        /// The defect.
        why: String,
    },
    /// A socket, a FIFO or a device.
    #[error("cannot pack {}: it is neither a file nor a folder nor a link", .path.display())]
    Special {
        /// Its path.
        path: PathBuf,
    },
    /// A file grew or shrank while it was read.
    #[error("cannot pack {}: it changed while it was read", .path.display())]
    Changed {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("cannot {what} {}: {source}", .path.display())]
    Io {
        /// The operation that failed, as a verb.
        what: &'static str,
        /// The file on which it failed.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Packs the folder `dir` into `out`, which must be named `<dir>.tar.gz`. The archive appears with one rename. An existing
/// archive with the same content is left untouched, so that no agent unpacks it again.
///
/// # Errors
/// See [`PackError`]; `out` is unchanged then.
pub fn pack(dir: &Path, out: &Path, limits: &Limits) -> Result<Packed, PackError> {
    let tool = tool_name(dir)?;
    if out.file_name() != Some(tool.archive_name().as_ref()) {
        return Err(PackError::OutName { out: out.to_owned(), tool });
    }
    let parent = out.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    scratch::remove_abandoned(parent, SCRATCH_PREFIX).map_err(io_error("read", parent))?;
    let scratch = Scratch::create(parent, SCRATCH_PREFIX).map_err(io_error("write to", parent))?;
    let archive = scratch.path().join(tool.archive_name());
    let entries = write_archive(dir, &tool, &archive, limits)?;
    let bytes = fs::metadata(&archive).map_err(io_error("stat", &archive))?.len();
    let file = File::open(&archive).map_err(io_error("open", &archive))?;
    unpack(&file, &tool, scratch.path(), limits, &AtomicBool::new(false))
        .map_err(|source| PackError::Refused { dir: dir.to_owned(), source })?;
    // A push would refuse it, and each run would fail.
    check_unpacked(&scratch.path().join(tool.as_str()))
        .map_err(|why| PackError::Invalid { dir: dir.to_owned(), why })?;
    if same_content(&archive, out).map_err(io_error("read", out))? {
        return Ok(Packed { bytes, entries, changed: false });
    }
    // Synced, because after a crash a name without its content would be a broken tool.
    file.sync_all().map_err(io_error("write", &archive))?;
    fs::rename(&archive, out).map_err(io_error("write", out))?;
    Ok(Packed { bytes, entries, changed: true })
}

/// The tool that a folder contains, by the folder's name.
pub(super) fn tool_name(dir: &Path) -> Result<ToolName, PackError> {
    // "." and ".." have no name of their own.
    let named = if dir.file_name().is_some() { dir.to_owned() } else { fs::canonicalize(dir).unwrap_or_default() };
    let name = named.file_name().unwrap_or_default().to_string_lossy();
    ToolName::new(&name).map_err(|source| PackError::Name { dir: dir.to_owned(), source })
}

/// Makes a folder for archives, and its missing parents. Whatever the umask is, only its owner may write to it.
///
/// # Errors
/// The system's error.
pub fn make_tools_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(dir)
}

/// Writes the archive of `dir` and returns the number of its entries.
pub(super) fn write_archive(dir: &Path, tool: &ToolName, archive: &Path, limits: &Limits) -> Result<u64, PackError> {
    // Whatever the umask is, only the owner may write what agents run.
    let created = OpenOptions::new().write(true).create_new(true).mode(0o644).open(archive);
    let file = created.map_err(io_error("write", archive))?;
    let gzip = GzBuilder::new().mtime(0).write(BufWriter::new(file), Compression::new(6));
    let mut writer = Writer { dir, tar: Builder::new(gzip), limits, entries: 0, bytes: 0 };
    writer.add_folder(dir, Path::new(tool.as_str()), 1)?;
    let Writer { tar, entries, .. } = writer;
    tar.into_inner()
        .and_then(flate2::write::GzEncoder::finish)
        .and_then(|mut buffered| buffered.flush())
        .map_err(io_error("write", archive))?;
    Ok(entries)
}

struct Writer<'a, W: Write> {
    dir: &'a Path,
    tar: Builder<W>,
    limits: &'a Limits,
    entries: u64,
    bytes: u64,
}

impl<W: Write> Writer<'_, W> {
    /// Adds a folder and everything below it. `inner` is its path in the archive, which has `depth` names.
    fn add_folder(&mut self, folder: &Path, inner: &Path, depth: u64) -> Result<(), PackError> {
        if depth > self.limits.depth {
            let path = inner.display().to_string();
            let depth = usize::try_from(depth).unwrap_or(usize::MAX);
            return Err(self.refused(ArchiveError::Depth { path, depth, limit: self.limits.depth }));
        }
        self.count(0)?;
        let mut header = header(EntryType::Directory, 0o755, 0);
        self.tar.append_data(&mut header, inner.join(""), io::empty()).map_err(io_error("pack", folder))?;
        for name in sorted_names(folder).map_err(io_error("read", folder))? {
            self.add(&folder.join(&name), &inner.join(&name), depth + 1)?;
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, inner: &Path, depth: u64) -> Result<(), PackError> {
        let metadata = fs::symlink_metadata(path).map_err(io_error("stat", path))?;
        if metadata.is_dir() {
            self.add_folder(path, inner, depth)
        } else if metadata.is_symlink() {
            self.count(0)?;
            let target = fs::read_link(path).map_err(io_error("read", path))?;
            let mut header = header(EntryType::Symlink, 0o777, 0);
            self.tar.append_link(&mut header, inner, target).map_err(io_error("pack", path))
        } else if metadata.is_file() {
            self.add_file(path, inner, depth == 2 && path.file_name() == Some(RUN_SCRIPT.as_ref()))
        } else {
            Err(PackError::Special { path: path.to_owned() })
        }
    }

    fn add_file(&mut self, path: &Path, inner: &Path, is_run_script: bool) -> Result<(), PackError> {
        // The entry may have been replaced since it was inspected; a link or a FIFO must not be opened here.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(io_error("open", path))?;
        let metadata = file.metadata().map_err(io_error("stat", path))?;
        if !metadata.is_file() {
            return Err(PackError::Special { path: path.to_owned() });
        }
        let bytes = metadata.size();
        self.count(bytes)?;
        let mode = if is_run_script || metadata.mode() & 0o100 != 0 { 0o755 } else { 0o644 };
        // One byte more than expected, so that growth is detected as well as shrinkage.
        let mut content = file.take(bytes + 1);
        self.tar
            .append_data(&mut header(EntryType::Regular, mode, bytes), inner, &mut content)
            .map_err(io_error("pack", path))?;
        if content.limit() != 1 {
            return Err(PackError::Changed { path: path.to_owned() });
        }
        Ok(())
    }

    /// Counts before the compression: otherwise it would take hours to refuse a sparse file of a terabyte.
    fn count(&mut self, bytes: u64) -> Result<(), PackError> {
        self.entries += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        let Limits { entries, unpacked_bytes, .. } = *self.limits;
        if self.entries > entries {
            return Err(self.refused(ArchiveError::Entries { limit: entries }));
        }
        if self.bytes > unpacked_bytes {
            return Err(self.refused(ArchiveError::UnpackedBytes { limit: unpacked_bytes }));
        }
        Ok(())
    }

    fn refused(&self, source: ArchiveError) -> PackError {
        PackError::Refused { dir: self.dir.to_owned(), source }
    }
}

fn header(kind: EntryType, mode: u32, bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(bytes);
    // Time and owner are zero by default, and their names empty.
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn sorted_names(folder: &Path) -> io::Result<Vec<OsString>> {
    let mut names =
        fs::read_dir(folder)?.map(|item| item.map(|item| item.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Whether `old` exists and has the same content as `new`.
fn same_content(new: &Path, old: &Path) -> io::Result<bool> {
    let Ok(metadata) = fs::metadata(old) else { return Ok(false) };
    if !metadata.is_file() || metadata.len() != fs::metadata(new)?.len() {
        return Ok(false);
    }
    let (mut new, mut old) = (BufReader::new(File::open(new)?), BufReader::new(File::open(old)?));
    let (mut a, mut b) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        let n = new.read(&mut a)?;
        if n == 0 {
            return Ok(old.read(&mut b)? == 0);
        }
        match old.read_exact(&mut b[..n]) {
            Ok(()) if a[..n] == b[..n] => {}
            Ok(()) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PackError {
    move |source| PackError::Io { what, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests;
