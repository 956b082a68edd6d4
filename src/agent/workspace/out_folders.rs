//! The outputs of tasks of steps, which are kept with their graphs on this machine.
//!
//! ```text
//! .out/<graph>/<task>/   what the last round of a task has put into its ../out
//! ```
//!
//! Both names are ids without their prefix, so that the link to the folder fits into its inode: a longer one takes a block of
//! the disk, which costs five times as much.
//!
//! An agent is not informed about the end of a graph, whose other tasks may be on other machines. So the age of its folder counts
//! from its last task that ran here: each task holds a shared lock on the folder, and marks the folder at its end. A folder
//! without a lock is removed when it is older than `TASK_KEEP_HOURS`; of the folders without a task for [`RECENT`], the oldest
//! are removed until the total is within `OUT_KEEP_BYTES`. Both hold after a kill of any process, because locks end with
//! processes and nothing else is recorded.
//!
//! The name of a task's folder does not contain the round, so that a later round, which begins with an empty folder, provides
//! the same locations.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Timespec, Timestamps, UTIME_NOW, flock, futimens, mkdirat, statat,
};
use rustix::io::{Errno, Result};

use super::own::{is_in_place, make_folder, move_to_trash};
use super::pinned_folder::PinnedFolder;
use super::{DirPool, OWNER_ONLY, TrashRemainder, Workspace, WorkspaceError, open_own};
use base::{GraphId, Provided, TaskId};
use proc::background::Background;
use proc::clock;
use proc::files::removal;
use proc::files::removal::{Budget, Progress};

const OUT: &str = ".out";

/// A graph without a task on this machine for this long counts as ended.
const RECENT: Duration = Duration::from_secs(600);

/// Attempts to make a folder that other agents remove at the same time.
const ATTEMPTS_MAX: u32 = 16;

/// Folders within one another whose content is counted. A tree that is deeper is the work of a tool that hides its size, and
/// each level costs a descriptor.
const DEPTH_MAX: u32 = 32;

/// Part of the budget that may be filled before all folders are counted again.
const BUDGET_SHARE: u64 = 16;

/// The limits of a machine.
#[derive(Clone, Copy, Debug)]
pub struct OutLimits {
    /// Bytes of all folders, `OUT_KEEP_BYTES`.
    pub bytes_max: u64,
    /// The age at which they are removed.
    pub age_max: Duration,
}

/// The folder of one task, while it runs.
#[derive(Debug)]
pub struct OutFolder {
    graph: GraphId,
    task: TaskId,
    path: PathBuf,
    /// The name in the folder of the graph.
    pub(super) name: CString,
    /// The folder of the graph, locked.
    pub(super) of_graph: OwnedFd,
    /// The folder itself, if it can be used again.
    pub(super) pinned: Option<PinnedFolder>,
    /// Whether the task has provided the folder, or a location in it: then it stays, also empty.
    is_handed_on: AtomicBool,
}

impl OutFolder {
    /// The absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The task has provided these locations.
    pub fn hand_on(&self, provided: &Provided) {
        if provided.values().flatten().any(|location| Path::new(&**location).starts_with(&self.path)) {
            self.is_handed_on.store(true, Ordering::Relaxed);
        }
    }

    /// The path seen from the folder of a task.
    pub(super) fn link(&self) -> PathBuf {
        Path::new("..").join(OUT).join(short(self.graph)).join(short(self.task))
    }
}

/// An id without its prefix.
fn short(id: impl std::fmt::Display) -> String {
    let id = id.to_string();
    id.split_once('_').map_or(id.as_str(), |(_, rest)| rest).to_owned()
}

fn short_name(id: impl std::fmt::Display) -> Result<CString> {
    CString::new(short(id)).map_err(|_| Errno::INVAL)
}

/// The graph of a folder.
fn graph_of(name: &CStr) -> Option<GraphId> {
    format!("GRAPH_{}", name.to_str().ok()?).parse().ok()
}

impl Workspace {
    /// Makes the empty folder for the outputs of a task of a step. The folder of an earlier round is moved to the trash.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make_out(
        &self,
        graph: GraphId,
        task: TaskId,
    ) -> std::result::Result<(OutFolder, Option<TrashRemainder>), WorkspaceError> {
        let make = |of_graph: BorrowedFd<'_>, name: &CStr| mkdirat(of_graph, name, OWNER_ONLY);
        self.make_out_with(graph, task, make)
    }

    /// Makes the folder of a task; `make` makes an empty folder of a name that does not exist.
    pub(super) fn make_out_with(
        &self,
        graph: GraphId,
        task: TaskId,
        make: impl Fn(BorrowedFd<'_>, &CStr) -> Result<()>,
    ) -> std::result::Result<(OutFolder, Option<TrashRemainder>), WorkspaceError> {
        let path = || self.path.join(OUT).join(short(graph)).join(short(task));
        let made = self.accessible(|| {
            let name = short_name(task)?;
            let (of_graph, rest) = self.try_make_out(&short_name(graph)?, &name, &make)?;
            let is_handed_on = AtomicBool::new(false);
            Ok((OutFolder { graph, task, path: path(), name, of_graph, pinned: None, is_handed_on }, rest))
        });
        made.map_err(|error| WorkspaceError {
            action: "make",
            source: removal::explained(error, &path()),
            path: path(),
        })
    }

    fn try_make_out(
        &self,
        graph: &CStr,
        task: &CStr,
        make: impl Fn(BorrowedFd<'_>, &CStr) -> Result<()>,
    ) -> Result<(OwnedFd, Option<TrashRemainder>)> {
        for _ in 0..ATTEMPTS_MAX {
            let Some(of_graph) = self.lock_graph(graph)? else { continue };
            let rest = match make(of_graph.as_fd(), task) {
                Ok(()) => None,
                Err(Errno::EXIST) => {
                    let rest = move_to_trash(of_graph.as_fd(), task, self.trash.as_fd())?;
                    make(of_graph.as_fd(), task)?;
                    rest
                }
                Err(error) => return Err(error),
            };
            return Ok((of_graph, rest));
        }
        Err(Errno::AGAIN)
    }

    /// The folder of a graph, with a shared lock; `None` if it was just made, or another agent has removed it meanwhile.
    fn lock_graph(&self, name: &CStr) -> Result<Option<OwnedFd>> {
        let all = match open_own(self.folder.as_fd(), OUT) {
            Err(Errno::NOENT) => {
                make_folder(self.folder.as_fd(), OUT)?;
                open_own(self.folder.as_fd(), OUT)?
            }
            opened => opened?,
        };
        let of_graph = match removal::uncovered(all.as_fd(), name) {
            Err(Errno::NOENT) => {
                make_folder(all.as_fd(), name)?;
                return Ok(None);
            }
            opened => opened?,
        };
        // An exclusive lock is held for as long as it takes to move the folder away.
        flock(&of_graph, FlockOperation::LockShared)?;
        Ok(is_in_place(all.as_fd(), name, of_graph.as_fd()).then_some(of_graph))
    }
}

/// Takes the exclusive lock on the folder of a graph; false if a task of it runs, or another agent has removed the folder.
fn is_free(all: BorrowedFd<'_>, name: &CStr, folder: BorrowedFd<'_>) -> bool {
    flock(folder, FlockOperation::NonBlockingLockExclusive).is_ok() && is_in_place(all, name, folder)
}

/// The thread that removes old folders.
#[derive(Debug)]
pub struct OutKeeper(Background<Job, ()>);

#[derive(Debug)]
enum Job {
    /// Count all folders.
    Tidy,
    /// A task has left something.
    Ended(GraphId, TaskId),
}

impl OutKeeper {
    /// Starts the thread, which begins with the folders of earlier agents.
    ///
    /// # Errors
    /// When threads or descriptors have run out.
    pub fn start(workspace: Arc<Workspace>, limits: OutLimits) -> std::io::Result<Self> {
        /// No machine ends more tasks at once.
        const BATCH_MAX: usize = 1024;
        let mut keeping = Keeping { workspace, limits, graph: None, added: 0 };
        let work = move |jobs: Vec<Job>, _: &dyn Fn(())| keeping.note(&jobs);
        let keeper = Self(Background::start_batches("out folders", BATCH_MAX, work)?);
        keeper.0.give(Job::Tidy);
        Ok(keeper)
    }

    /// A task has ended. Its folder is kept for the next one if that is possible.
    pub fn end(&self, mut out: OutFolder, dir_pool: Option<&mut DirPool>) {
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        if let Err(error) = futimens(&out.of_graph, &Timestamps { last_access: now, last_modification: now }) {
            log::warn!("cannot mark the folder of {}: {error}", out.graph);
        }
        if out.is_handed_on.load(Ordering::Relaxed) {
            return self.0.give(Job::Ended(out.graph, out.task));
        }
        if dir_pool.is_some_and(|dir_pool| dir_pool.keep_out(&mut out)) {
            return;
        }
        let OutFolder { graph, task, path, name, of_graph, .. } = out;
        // Most tasks leave nothing there.
        match rustix::fs::unlinkat(&of_graph, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) => self.0.give(Job::Ended(graph, task)),
            Err(error) => log::warn!("cannot look at {}: {error}", path.display()),
        }
    }
}

#[derive(Debug)]
struct Keeping {
    workspace: Arc<Workspace>,
    limits: OutLimits,
    /// The graph of the last task.
    graph: Option<GraphId>,
    /// Bytes that tasks have added since all folders were counted.
    added: u64,
}

/// The folder of a graph.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    /// When its last task ended, in nanoseconds since 1970.
    marked: i128,
    name: CString,
    bytes: u64,
}

impl Keeping {
    fn note(&mut self, jobs: &[Job]) {
        let mut is_new = false;
        for job in jobs {
            let Job::Ended(graph, task) = job else {
                is_new = true;
                continue;
            };
            is_new |= self.graph.replace(*graph) != Some(*graph);
            self.added = self.added.saturating_add(self.bytes_of(*graph, *task).unwrap_or_default());
        }
        if is_new || self.added > self.limits.bytes_max / BUDGET_SHARE {
            self.tidy();
        }
    }

    fn bytes_of(&self, graph: GraphId, task: TaskId) -> Result<u64> {
        let all = open_own(self.workspace.folder.as_fd(), OUT)?;
        let of_graph = removal::open_on_mount(all.as_fd(), &short_name(graph)?)?;
        let of_task = removal::open_on_mount(of_graph.as_fd(), &short_name(task)?)?;
        Ok(bytes_below(of_task.as_fd(), DEPTH_MAX))
    }

    /// Removes the expired folders, then the oldest ones until the total is within the limit.
    fn tidy(&mut self) {
        self.added = 0;
        let tidied = match open_own(self.workspace.folder.as_fd(), OUT) {
            Ok(all) => self.tidy_all(all.as_fd()),
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = tidied {
            log::error!("cannot tidy the outputs of graphs in {}: {error}", self.workspace.path.join(OUT).display());
        }
    }

    fn tidy_all(&self, all: BorrowedFd<'_>) -> Result<()> {
        let nanos = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
        let now = i128::from(clock::now().wall.micros()) * 1000;
        let (too_old, ended) = (now.saturating_sub(nanos(self.limits.age_max)), now - nanos(RECENT));
        let mut kept = self.graphs(all)?;
        kept.sort();
        let mut total = kept.iter().fold(0, |sum: u64, graph| sum.saturating_add(graph.bytes));
        for graph in kept {
            let is_excess = total > self.limits.bytes_max && graph.marked < ended;
            if (graph.marked < too_old || is_excess) && self.remove(all, &graph.name) {
                total = total.saturating_sub(graph.bytes);
            }
        }
        Ok(())
    }

    /// The folders of all graphs. Those without content are removed.
    fn graphs(&self, all: BorrowedFd<'_>) -> Result<Vec<Kept>> {
        let mut kept = Vec::new();
        for entry in Dir::read_from(all)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_graph = graph_of(name).is_some();
            let Some(folder) = removal::open_on_mount(all, name).ok().filter(|_| is_graph) else { continue };
            let stat = rustix::fs::fstat(&folder)?;
            let marked = i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
            let bytes = bytes_below(folder.as_fd(), DEPTH_MAX);
            // An empty one stays empty, because no task of it runs.
            if is_free(all, name, folder.as_fd()) && rustix::fs::unlinkat(all, name, AtFlags::REMOVEDIR).is_ok() {
                continue;
            }
            kept.push(Kept { marked, name: name.to_owned(), bytes });
        }
        Ok(kept)
    }

    /// Removes the folder of a graph, unless a task of it runs; false then.
    fn remove(&self, all: BorrowedFd<'_>, name: &CStr) -> bool {
        let Ok(folder) = removal::open_on_mount(all, name) else { return false };
        if !is_free(all, name, folder.as_fd()) {
            return false;
        }
        let trash = self.workspace.trash.as_fd();
        let moved = self.workspace.accessible(|| move_to_trash(all, name, trash));
        drop(folder);
        match moved {
            Ok(Some(rest)) => {
                let removed = removal::remove_tree_and_unmount(trash, rest.name(), &mut Budget::unlimited());
                if let Progress::Stuck(error) = removed {
                    log::warn!("a part of the outputs of {} stays in the trash: {error}", name.to_string_lossy());
                }
                true
            }
            Ok(None) => true,
            Err(error) => {
                log::error!("cannot remove the outputs of {}: {error}", name.to_string_lossy());
                false
            }
        }
    }
}

/// Bytes on the disk of everything in a folder, on its own mount.
fn bytes_below(folder: BorrowedFd<'_>, depth: u32) -> u64 {
    const BLOCK_BYTES: u64 = 512;
    let Ok(entries) = Dir::read_from(folder) else { return 0 };
    let mut bytes = 0_u64;
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let Ok(stat) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        bytes = bytes.saturating_add(u64::try_from(stat.st_blocks).unwrap_or_default().saturating_mul(BLOCK_BYTES));
        let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if is_folder
            && depth > 0
            && let Ok(inner) = removal::open_on_mount(folder, name)
        {
            bytes = bytes.saturating_add(bytes_below(inner.as_fd(), depth - 1));
        }
    }
    bytes
}

#[cfg(test)]
mod tests;
