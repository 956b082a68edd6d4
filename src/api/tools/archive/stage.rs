//! The folder that an archive is unpacked into, hidden until it is complete.
//!
//! While members arrive, the folder contains only real folders and regular files, made by this process: symbolic links are
//! kept in memory and made last. So no path can lead through a link, whatever the order of the archive. Every step still
//! starts at an open folder with `O_NOFOLLOW`. No file is ever chmodded by name, overwritten or removed for an entry.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, chmodat, fchmod, fstat, linkat, mkdirat, openat, statat, symlinkat};
use rustix::io::Errno;

use super::error::shown;
use super::members::{Content, Kind, Member};
use super::path::{InnerPath, check_symlink, names};
use super::{ArchiveError, Layout, Limits, Unpacked};
use crate::tools::RUN_SCRIPT;
use proc::files::removal;

/// A tool's name never begins with a dot, so this name cannot collide with one.
const STAGE_NAME: &str = ".unpacking";

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// An unfinished tool folder. Dropping it removes it.
pub(super) struct Stage<'a> {
    into: &'a Path,
    dir: PathBuf,
    root: OwnedFd,
    layout: Layout<'a>,
    limits: &'a Limits,
    /// The folder of the last entry: usually that of the next one, too.
    recent: Option<(Vec<u8>, OwnedFd)>,
    symlinks: Vec<(InnerPath, Vec<u8>)>,
    /// The first entry that is not in a folder with the name of the tool.
    beside: Option<InnerPath>,
    made: Unpacked,
}

impl<'a> Stage<'a> {
    pub(super) fn create(into: &'a Path, layout: Layout<'a>, limits: &'a Limits) -> Result<Self, ArchiveError> {
        let target = into.join(layout.folder());
        if fs::symlink_metadata(&target).is_ok() {
            return Err(path_error(&target, Errno::EXIST));
        }
        let dir = into.join(STAGE_NAME);
        fs::create_dir(&dir).map_err(|source| path_error(&dir, source))?;
        let root = openat(rustix::fs::CWD, &dir, FOLDER, Mode::empty()).map_err(|source| path_error(&dir, source))?;
        Ok(Self {
            into,
            dir,
            root,
            layout,
            limits,
            recent: None,
            symlinks: Vec::new(),
            beside: None,
            made: Unpacked { entries: 0, bytes: 0 },
        })
    }

    /// Makes one member, reading its content from `members`.
    pub(super) fn add(&mut self, member: &Member, members: &mut dyn Content) -> Result<(), ArchiveError> {
        let Member { path, kind, mode } = member;
        if path.is_root() {
            return Ok(());
        }
        let is_inside = |tool: &str| path.top() == tool.as_bytes() && (path.depth() > 1 || *kind == Kind::Folder);
        if !self.layout.wrapper().is_some_and(is_inside) && self.beside.is_none() {
            self.beside = Some(path.clone());
        }
        match kind {
            Kind::Folder => self.add_folder(path, *mode),
            Kind::File { bytes } => self.add_file(path, *mode, *bytes, members),
            Kind::HardLink { target } => self.add_hard_link(path, target),
            Kind::Symlink { target } => {
                self.count()?;
                // The layout is not known yet, so this is the weaker of two checks; it bounds the memory for links.
                check_symlink(path.as_bytes(), target, path.depth() - 1, self.limits)?;
                self.symlinks.push((path.clone(), target.clone()));
                Ok(())
            }
        }
    }

    /// Decides the layout, makes the symbolic links, checks run.sh and gives the folder its name.
    pub(super) fn finish(mut self) -> Result<Unpacked, ArchiveError> {
        self.recent = None;
        let name = self.layout.folder();
        // An archive is one folder named as the tool, or the content of that folder. It is the second unless every entry is in
        // such a folder, because a tool may have a subfolder of its own name beside its run.sh.
        let is_there = |tool: &str| statat(&self.root, tool, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let wrapped = self.beside.is_none() && self.layout.wrapper().is_some_and(is_there);
        let tops = usize::from(wrapped);
        for (path, target) in std::mem::take(&mut self.symlinks) {
            check_symlink(path.as_bytes(), &target, path.depth() - 1 - tops, self.limits)?;
            let (parent, name) = path.split();
            let folder = self.folder(parent)?;
            symlinkat(target.as_slice(), folder, name).map_err(|errno| made_error(&path, errno))?;
        }
        let folder = if wrapped { self.dir.join(name) } else { self.dir.clone() };
        self.check_script(&folder, wrapped)?;
        let target = self.into.join(name);
        fs::rename(&folder, &target).map_err(|cause| path_error(&target, cause))?;
        Ok(self.made)
    }

    fn add_folder(&mut self, path: &InnerPath, mode: u32) -> Result<(), ArchiveError> {
        let (parent, name) = path.split();
        let folder = self.folder(parent)?;
        match make_folder(folder, name, Mode::from_raw_mode(mode | 0o700)) {
            Ok(()) => self.count(),
            // A folder may occur twice; a file or a link in its place may not.
            Err(Errno::EXIST) => self.folder(path.as_bytes()).map(|_| ()),
            Err(errno) => Err(made_error(path, errno)),
        }
    }

    fn add_file(
        &mut self,
        path: &InnerPath,
        mode: u32,
        bytes: u64,
        members: &mut dyn Content,
    ) -> Result<(), ArchiveError> {
        self.count()?;
        let (parent, name) = path.split();
        let folder = self.folder(parent)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode | 0o600);
        let file = openat(folder, name, flags, mode).and_then(|file| fchmod(&file, mode).map(|()| file));
        let mut file = File::from(file.map_err(|errno| made_error(path, errno))?);
        members.content(bytes, &mut |chunk| {
            file.write_all(chunk).map_err(|cause| ArchiveError::write(path.as_bytes(), cause))
        })?;
        self.made.bytes += bytes;
        Ok(())
    }

    /// A hard link counts its bytes again, because each copy of the tool gets a separate file for it.
    fn add_hard_link(&mut self, path: &InnerPath, target: &InnerPath) -> Result<(), ArchiveError> {
        self.count()?;
        let refuse = |why| ArchiveError::link(path.as_bytes(), target.as_bytes(), why);
        let no_file = "does not name an earlier file";
        if target.is_root() {
            return Err(refuse(no_file));
        }
        let (target_parent, target_name) = target.split();
        let from = match walk(&self.root, target_parent, |_, _| Err(refuse(no_file)))? {
            Some(folder) => folder,
            None => self.root.try_clone().map_err(|source| ArchiveError::write(target.as_bytes(), source))?,
        };
        let stat = statat(&from, target_name, AtFlags::SYMLINK_NOFOLLOW).map_err(|_| refuse(no_file))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(refuse(no_file));
        }
        self.made.bytes = self.made.bytes.saturating_add(u64::try_from(stat.st_size).unwrap_or_default());
        if self.made.bytes > self.limits.unpacked_bytes {
            return Err(ArchiveError::UnpackedBytes { limit: self.limits.unpacked_bytes });
        }
        let (parent, name) = path.split();
        linkat(&from, target_name, self.folder(parent)?, name, AtFlags::empty())
            .map_err(|errno| made_error(path, errno))
    }

    /// Opens a folder, creating missing ones. Folders that no entry names count as entries too: otherwise one path of 32
    /// names would create 31 of them for free.
    fn folder(&mut self, path: &[u8]) -> Result<BorrowedFd<'_>, ArchiveError> {
        if path.is_empty() {
            return Ok(self.root.as_fd());
        }
        if self.recent.as_ref().is_none_or(|(recent, _)| recent != path) {
            let (made, limit) = (&mut self.made, self.limits.entries);
            let folder = walk(&self.root, path, |at, name| {
                count(made, limit)?;
                make_folder(at, name, Mode::from_raw_mode(0o755)).map_err(|errno| ArchiveError::write(path, errno))
            })?;
            self.recent = folder.map(|folder| (path.to_vec(), folder));
        }
        Ok(self.recent.as_ref().map_or(self.root.as_fd(), |(_, folder)| folder.as_fd()))
    }

    fn check_script(&self, folder: &Path, wrapped: bool) -> Result<(), ArchiveError> {
        let script = folder.join(RUN_SCRIPT);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(rustix::fs::CWD, &script, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::LOOP) => return Err(ArchiveError::ScriptNotFile),
            Err(Errno::NOENT) => return Err(self.no_script(wrapped)),
            Err(errno) => return Err(path_error(&script, errno)),
        };
        let stat = fstat(&file).map_err(|errno| path_error(&script, errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(ArchiveError::ScriptNotFile);
        }
        let mode = Mode::from_raw_mode(stat.st_mode);
        if mode.contains(Mode::XUSR) {
            return Ok(());
        }
        fchmod(&file, mode | Mode::XUSR).map_err(|errno| path_error(&script, errno))
    }

    fn no_script(&self, wrapped: bool) -> ArchiveError {
        let tool = self.layout.wrapper().unwrap_or_default();
        match &self.beside {
            Some(beside) if !wrapped && !tool.is_empty() && self.dir.join(tool).join(RUN_SCRIPT).is_file() => {
                ArchiveError::Layout { beside: shown(beside.as_bytes()), tool: tool.to_owned() }
            }
            _ => ArchiveError::NoScript,
        }
    }

    fn count(&mut self) -> Result<(), ArchiveError> {
        count(&mut self.made, self.limits.entries)
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        // Also after success: in the wrapped layout the empty outer folder is left. In the other layout the folder has been
        // renamed.
        if let Err(error) = removal::remove_and_unmount(&self.dir) {
            log::warn!("{error}");
        }
    }
}

/// Makes a folder with exactly the mode of the archive: our umask applies to our own files only.
fn make_folder(at: BorrowedFd<'_>, name: &[u8], mode: Mode) -> rustix::io::Result<()> {
    mkdirat(at, name, mode)?;
    chmodat(at, name, mode, AtFlags::empty())
}

const fn count(made: &mut Unpacked, limit: u64) -> Result<(), ArchiveError> {
    made.entries += 1;
    if made.entries > limit { Err(ArchiveError::Entries { limit }) } else { Ok(()) }
}

/// Opens the folder `path` below `root` name by name; `missing` creates one that does not exist. `None` is the root.
fn walk(
    root: &OwnedFd,
    path: &[u8],
    mut missing: impl FnMut(BorrowedFd<'_>, &[u8]) -> Result<(), ArchiveError>,
) -> Result<Option<OwnedFd>, ArchiveError> {
    let mut current: Option<OwnedFd> = None;
    for name in names(path) {
        let at = current.as_ref().unwrap_or(root).as_fd();
        let opened = match openat(at, name, FOLDER, Mode::empty()) {
            Err(Errno::NOENT) => {
                missing(at, name)?;
                openat(at, name, FOLDER, Mode::empty())
            }
            opened => opened,
        };
        current = Some(opened.map_err(|errno| match errno {
            Errno::NOTDIR | Errno::LOOP => ArchiveError::duplicate(path),
            errno => ArchiveError::write(path, errno),
        })?);
    }
    Ok(current)
}

fn made_error(path: &InnerPath, errno: Errno) -> ArchiveError {
    match errno {
        Errno::EXIST => ArchiveError::duplicate(path.as_bytes()),
        errno => ArchiveError::write(path.as_bytes(), errno),
    }
}

fn path_error(path: &Path, source: impl Into<io::Error>) -> ArchiveError {
    ArchiveError::Write { path: path.display().to_string(), source: source.into() }
}
