//! A task folder that the next task may get: every file in it that llts made is held open and restored after the run.
//!
//! The guarantee to a task is the same as with a fresh folder: a private, unmodified copy of its tool, and empty output. No
//! file is created or deleted for it. That saves much time: for each new inode ext4 searches all recently deleted ones, so
//! a service that creates and deletes files becomes slower with its rate.
//!
//! [`ReusableDir::restore`] is called when no process of the run is left. It removes foreign entries and compares the rest.
//! It never opens anything by a name that the tool could have replaced. It does not repair a changed file: the folder is
//! discarded, and the next task gets a fresh one. Between two runs of a tool, other tasks can reach its folder:
//! [`ReusableDir::is_as_left`] checks it once more before it is used.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::TaskDir;
use super::pinned_file::{NotReusable, PinnedFile};
use super::pinned_folder::{CUT_BYTES_MAX, EXTRA_ENTRIES_MAX, PinnedFolder};
use super::step_folders::StepFolders;
use api::tools::{RUN_SCRIPT, ToolSnapshot};
use base::Wall;
use proc::files::file_stamp::tells_changes;
use proc::files::removal;
use proc::files::removal::Budget;

/// A file made by llts in a task folder.
#[derive(Debug)]
pub(super) struct OwnFile {
    name: CString,
    pinned: PinnedFile,
    /// Whether it is an output, which is emptied after each run because it is not rewritten before the next one.
    is_output: bool,
    /// The number of bytes of an earlier run that are still in it.
    stale: u64,
    /// Whether the present run uses it.
    pub(super) in_use: bool,
    /// The content that llts has written last. A run may have changed it.
    written: Vec<u8>,
}

impl OwnFile {
    pub(super) const fn new(name: CString, pinned: PinnedFile, is_output: bool) -> Self {
        Self { name, pinned, is_output, stale: 0, in_use: true, written: Vec::new() }
    }

    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name.as_bytes() == name.as_bytes()
    }

    /// Records the properties of a file that was made in a folder that is reusable already.
    ///
    /// # Errors
    /// [`NotReusable`], when a later change of them could not be noticed.
    pub(super) fn note(&mut self) -> Result<(), NotReusable> {
        self.pinned.note().map(drop)
    }

    /// Replaces the content that an earlier run has left.
    ///
    /// # Errors
    /// When it cannot be written completely.
    pub(super) fn rewrite(&mut self, mut bytes: &[u8]) -> rustix::io::Result<()> {
        self.in_use = true;
        let size = bytes.len() as u64;
        // Reading is cheaper than writing, and a file that is left alone settles.
        if size == self.stale && bytes == self.written && self.pinned.check_content(&self.name, bytes).is_ok() {
            return Ok(());
        }
        self.written.clear();
        self.written.extend_from_slice(bytes);
        let mut at = 0;
        while !bytes.is_empty() {
            match rustix::io::pwrite(&self.pinned, bytes, at) {
                Ok(0) => return Err(Errno::IO),
                Ok(n) => {
                    at += n as u64;
                    bytes = bytes.get(n..).unwrap_or_default();
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        // The file is not truncated before the write: when a file that was truncated to zero is closed, ext4 writes it to
        // the disk.
        if self.stale > size { rustix::fs::ftruncate(&self.pinned, size) } else { Ok(()) }
    }

    fn restore(&mut self, folder: BorrowedFd<'_>, settled_before: Option<Wall>) -> Result<(), NotReusable> {
        let size = self.pinned.check_file(folder, &self.name, settled_before)?.stat.st_size;
        if size > CUT_BYTES_MAX {
            return Err(NotReusable::TooMuch);
        }
        self.stale = u64::try_from(size).unwrap_or_default();
        self.in_use = false;
        if self.is_output { self.cut(folder) } else { Ok(()) }
    }

    /// Empties the file.
    fn cut(&mut self, folder: BorrowedFd<'_>) -> Result<(), NotReusable> {
        if self.stale > 0 {
            rustix::fs::ftruncate(&self.pinned, 0)?;
            self.stale = 0;
            // For the same reason as in [`Self::rewrite`] the file must not be written out here. The next process to close
            // it is the next run, when the file has content: closing this second descriptor while the file is empty costs
            // nothing, and makes ext4 forget the truncation.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            drop(rustix::fs::openat(folder, &self.name, flags, Mode::empty())?);
            self.pinned.changed_by_us()?;
        }
        Ok(())
    }
}

impl AsFd for OwnFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pinned.as_fd()
    }
}

/// The tool's folder in a task folder, as the first task got it.
#[derive(Debug)]
pub(super) struct ReusableDir {
    snapshot: Arc<ToolSnapshot>,
    name: CString,
    /// The task's folder.
    top: PinnedFolder,
    /// In the order of the tool snapshot.
    folders: Vec<PinnedFolder>,
    files: Vec<PinnedToolFile>,
    /// What only a task of a step has: another task never gets this folder.
    step: Option<StepFolders>,
    /// Whether the file system is known to report every change of it.
    tells_changes: bool,
}

#[derive(Debug)]
struct PinnedToolFile {
    pinned: PinnedFile,
    /// When its content was written; build tools compare this time.
    modified: (i64, i64),
}

impl ReusableDir {
    /// Takes charge of a copy of a tool that was just made in a task folder, beside the other files made by llts.
    ///
    /// # Errors
    /// [`NotReusable`], when this folder cannot be used twice; it can be used for one run in any case.
    pub(super) fn new(
        folder: BorrowedFd<'_>,
        own: &mut [OwnFile],
        snapshot: &Arc<ToolSnapshot>,
        is_step: bool,
    ) -> Result<Self, NotReusable> {
        for file in own {
            file.pinned.note()?;
        }
        let tool = removal::open_folder(folder, Path::new(snapshot.tool().folder_name()))?;
        let open = |path: &CStr| removal::open_folder(tool.as_fd(), removal::path_of(path));
        let files = snapshot.files().iter().map(|file| {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(&tool, file.path(), flags, Mode::empty())?;
            make_ready(opened.as_fd(), file.path())?;
            let mut pinned = PinnedFile::new(opened);
            let modified = modified(&pinned.note()?);
            Ok(PinnedToolFile { pinned, modified })
        });
        let files = files.collect::<Result<_, NotReusable>>()?;
        let folders = snapshot.folders().iter().map(|folder| PinnedFolder::new(open(folder.path())?));
        Ok(Self {
            tells_changes: tells_changes(folder)?,
            folders: folders.collect::<Result<_, NotReusable>>()?,
            files,
            step: is_step.then(|| StepFolders::new(folder)).transpose()?,
            top: PinnedFolder::new(removal::open_folder(folder, Path::new("."))?)?,
            name: CString::new(snapshot.tool().folder_name()).map_err(|_| Errno::INVAL)?,
            snapshot: Arc::clone(snapshot),
        })
    }

    /// Whether every file of the tool is settled: see [`super::pinned_file`].
    #[cfg(test)]
    pub(super) fn is_settled(&self) -> bool {
        let folders = self.folders.iter().map(|folder| &folder.pinned);
        folders.chain(self.files.iter().map(|file| &file.pinned)).all(PinnedFile::has_settled)
            && self.step.as_ref().is_none_or(StepFolders::is_settled)
    }

    /// The identifier of the tool's content.
    pub(super) fn content(&self) -> &str {
        self.snapshot.content()
    }

    /// The folders of a task of a step, if this is the folder of one.
    pub(super) const fn step(&self) -> Option<&StepFolders> {
        self.step.as_ref()
    }

    /// The tool's folder, open.
    pub(super) fn tool_folder(&self) -> Option<BorrowedFd<'_>> {
        self.folders.first().map(|tool| tool.pinned.as_fd())
    }

    /// Restores the state before the run, or finds out that this is not possible. `parent` and `name` are the location of
    /// the folder. Outputs are emptied; the other files of llts are rewritten for the next task. Files unchanged since
    /// `settled_before` settle: see [`super::pinned_file`].
    ///
    /// # Errors
    /// [`NotReusable`]: no task may get this folder.
    pub(super) fn restore(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &CStr,
        own: &mut [OwnFile],
        settled_before: Wall,
    ) -> Result<(), NotReusable> {
        let settled_before = self.tells_changes.then_some(settled_before);
        let mut budget = Budget::of(EXTRA_ENTRIES_MAX);
        let is_own = |name: &CStr| {
            name == self.name.as_c_str()
                || own.iter().any(|file| file.name.as_c_str() == name)
                || (self.step.is_some() && StepFolders::hold(name))
        };
        self.top.restore((parent, name), is_own, &mut budget, settled_before)?;
        let top = self.top.pinned.as_fd();
        if let Some(step) = &mut self.step {
            step.restore(top, &mut budget, settled_before)?;
        }
        for file in &mut *own {
            file.restore(top, settled_before)?;
        }
        // The tool's own folder comes first; everything else is reached from there.
        let folders = (self.folders.split_first_mut(), self.snapshot.folders().split_first());
        let (Some((tool, inner)), Some((own, folders))) = folders else { return Err(NotReusable::TooMuch) };
        tool.restore((top, &self.name), |name| own.holds(name), &mut budget, settled_before)?;
        let tool = tool.pinned.as_fd();
        for (pinned, folder) in inner.iter_mut().zip(folders) {
            pinned.restore((tool, folder.path()), |name| folder.holds(name), &mut budget, settled_before)?;
        }
        for (file, snapshot) in self.files.iter_mut().zip(self.snapshot.files()) {
            let looked = file.pinned.check_file(tool, snapshot.path(), settled_before)?;
            if looked.is_settled {
                continue;
            }
            let stat = looked.stat;
            let size = u64::try_from(stat.st_size).unwrap_or_default();
            if size != snapshot.bytes().len() as u64 || modified(&stat) != file.modified {
                return Err(NotReusable::Changed { name: snapshot.path().to_owned(), what: "was written" });
            }
            file.pinned.check_content(snapshot.path(), snapshot.bytes())?;
        }
        Ok(())
    }
}

impl ReusableDir {
    /// Whether everything is unchanged since [`Self::restore`]. The files of llts may be rewritten only after this check.
    pub(super) fn is_as_left(&self, parent: BorrowedFd<'_>, name: &CStr, own: &[OwnFile]) -> bool {
        let top = self.top.pinned.as_fd();
        let Some(tool) = self.tool_folder() else { return false };
        let mut folders = self.folders.iter().zip(self.snapshot.folders()).skip(1);
        let mut files = self.files.iter().zip(self.snapshot.files());
        self.top.pinned.is_as_left(parent, name)
            && own.iter().all(|file| file.pinned.is_as_left(top, &file.name))
            && self.step.as_ref().is_none_or(|step| step.are_as_left(top))
            && self.folders.first().is_some_and(|folder| folder.pinned.is_as_left(top, &self.name))
            && folders.all(|(folder, snapshot)| folder.pinned.is_as_left(tool, snapshot.path()))
            && files.all(|(file, snapshot)| file.pinned.is_as_left(tool, snapshot.path()))
    }
}

impl TaskDir {
    /// Records that the folder contains a copy of this tool, so that another task can reuse it. Call it when no more files
    /// are made in it, except those of [`Self::make_step`]. A failure only costs the next task a fresh folder.
    pub fn keep_for(&mut self, tool: &Arc<ToolSnapshot>, is_step: bool) {
        match ReusableDir::new(self.folder.as_fd(), &mut self.files, tool, is_step) {
            Ok(reusable) => self.reusable = Some(reusable),
            Err(why) => log::debug!("{} is for one run only: {why}", self.path.display()),
        }
    }

    pub(super) fn holds(&self, tool: &ToolSnapshot, is_step: bool) -> bool {
        let is_one =
            |reusable: &ReusableDir| reusable.content() == tool.content() && reusable.step().is_some() == is_step;
        self.reusable.as_ref().is_some_and(is_one)
    }

    #[cfg(test)]
    pub(super) fn is_settled(&self) -> bool {
        self.reusable.as_ref().is_some_and(ReusableDir::is_settled)
    }

    pub(super) const fn can_be_spare(&self) -> bool {
        self.reusable.is_some()
    }

    /// Whether it is unchanged since [`Self::restore`].
    pub(super) fn is_as_left(&self, parent: BorrowedFd<'_>) -> bool {
        let name = CString::new(self.name.as_str());
        let reusable = self.reusable.as_ref().zip(name.ok());
        reusable.is_some_and(|(reusable, name)| reusable.is_as_left(parent, &name, &self.files))
    }

    /// Restores the state before the run, as a folder in `parent`.
    pub(super) fn restore(&mut self, parent: BorrowedFd<'_>, settled_before: Wall) -> Result<(), NotReusable> {
        let name = CString::new(self.name.as_str()).map_err(|_| Errno::INVAL)?;
        match &mut self.reusable {
            Some(reusable) => reusable.restore(parent, &name, &mut self.files, settled_before),
            None => Err(Errno::INVAL.into()),
        }
    }
}

/// Gives the owner the right to execute run.sh, as its start does, before the properties of the file are recorded.
fn make_ready(file: BorrowedFd<'_>, path: &CStr) -> rustix::io::Result<()> {
    if path.to_bytes() != RUN_SCRIPT.as_bytes() {
        return Ok(());
    }
    let mode = Mode::from_raw_mode(rustix::fs::fstat(file)?.st_mode);
    let needed = Mode::RUSR | Mode::XUSR;
    if mode.contains(needed) { Ok(()) } else { rustix::fs::fchmod(file, mode | needed) }
}

fn modified(stat: &rustix::fs::Stat) -> (i64, i64) {
    #[expect(clippy::unnecessary_cast, reason = "the width depends on the architecture")]
    (stat.st_mtime as i64, stat.st_mtime_nsec as i64)
}
