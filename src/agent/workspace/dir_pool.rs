//! Task folders of ended runs, restored and stored out of sight for later tasks of the same tools.
//!
//! ```text
//! .spare/<pid>-*/<n>/   one such folder; the folder above belongs to one agent, which holds a lock on it
//! .spare/<pid>-*/out/   see [`super::spare_out`]
//! ```
//!
//! A lock shows which agent is alive where a process id cannot: ids are reused, and agents in different containers may
//! share a work folder without seeing each other's processes. The folders of a killed agent are found by the
//! [`super::Remover`] of the next agent.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FlockOperation, RenameFlags, flock, renameat, renameat_with};
use rustix::io::{Errno, Result};

use super::own::{is_in_place, make_folder};
use super::pinned_folder::PinnedFolder;
use super::{
    OWNER_ONLY, Removed, Remover, TaskDir, TrashRemainder, Workspace, WorkspaceError, open_own, restore_mode, sys,
};
use api::tools::ToolSnapshot;
use base::TaskId;
use proc::clock;
use proc::files::removal;

pub(super) const SPARE: &str = ".spare";

/// Attempts to make the agent's folder, which another process may remove before it is locked.
const ATTEMPTS_MAX: u32 = 16;

/// The minimum age of the last change of a file that counts as settled: far more than the resolution of any file system
/// clock.
const SETTLING: Duration = Duration::from_secs(1);

/// The maximum number of entries of a discarded folder that are removed at once; the rest is removed in the background.
const REMOVALS_MAX: u32 = 256;

/// The spare folders of one agent. Dropping it removes them.
#[derive(Debug)]
pub struct DirPool {
    pub(super) workspace: Arc<Workspace>,
    /// The folder that contains them, locked.
    pub(super) folder: OwnedFd,
    name: CString,
    /// `AGENT_SPARE_FOLDERS_MAX`.
    spares_max: usize,
    /// Ready for use, the least recently used first.
    kept: Vec<TaskDir>,
    /// The folder of the last run, not inspected yet.
    used: Option<TaskDir>,
    /// A folder for outputs.
    pub(super) spare_out: Option<PinnedFolder>,
    next: u64,
    settling: Duration,
}

impl DirPool {
    /// Makes the folder for the spare folders of this agent.
    ///
    /// # Errors
    /// When it can neither be made nor locked.
    pub fn open(workspace: Arc<Workspace>, spares_max: usize) -> std::result::Result<Self, WorkspaceError> {
        sys::ignore_lease_breaks();
        let path = workspace.path.join(SPARE);
        let failed = |error| WorkspaceError {
            action: "keep spare folders in",
            source: removal::explained(error, &path),
            path: path.clone(),
        };
        let (folder, name) = own_folder(&workspace).map_err(failed)?;
        let (kept, used, spare_out) = (Vec::new(), None, None);
        Ok(Self { workspace, folder, name, spares_max, kept, used, spare_out, next: 0, settling: SETTLING })
    }

    /// A restored folder of an earlier task of the same tool, under the name of the new task; `None` if there is none. Tasks of steps
    /// have folders of their own. The files are to be written as in a new folder. As with [`Workspace::create`], a leftover under that
    /// name is returned.
    pub fn take(
        &mut self,
        (tool, is_step): (&ToolSnapshot, bool),
        task: TaskId,
        remover: &Remover,
    ) -> Option<(TaskDir, Option<TrashRemainder>)> {
        self.tidy(remover);
        let mut spare = loop {
            let at = self.kept.iter().position(|spare| spare.holds(tool, is_step))?;
            let spare = self.kept.remove(at);
            if spare.is_as_left(self.folder.as_fd()) {
                break spare;
            }
            log::warn!("a spare folder of {} was changed by another task; it is not used again", tool.tool());
            self.give_up(spare, remover);
        };
        match self.place(&mut spare, task) {
            Ok(leftover) => Some((spare, leftover)),
            Err(error) => {
                log::warn!("cannot use a spare folder for {task}: {error}");
                self.give_up(spare, remover);
                None
            }
        }
    }

    fn place(&self, spare: &mut TaskDir, task: TaskId) -> Result<Option<TrashRemainder>> {
        let name = task.to_string();
        let rename = || {
            self.accessible(|| {
                renameat_with(&self.folder, &spare.name, &self.workspace.folder, &name, RenameFlags::NOREPLACE)
            })
        };
        let leftover = match rename() {
            Ok(()) => None,
            Err(Errno::EXIST) => {
                let leftover = self.workspace.to_trash(&name)?;
                rename()?;
                leftover
            }
            Err(error) => return Err(error),
        };
        spare.path = self.workspace.path.join(&name);
        spare.name = name;
        Ok(leftover)
    }

    /// Moves the folder of an ended run out of sight: its name no longer exists. [`Self::tidy`] decides later whether
    /// another task can use it. A folder that cannot be reused is returned and must be removed.
    ///
    /// A folder of the same name that belongs to another run is left alone, as by [`Workspace::remove`].
    pub fn put_aside(&mut self, mut task: TaskDir, remover: &Remover) -> Option<TaskDir> {
        self.tidy(remover);
        if !task.can_be_spare() {
            return Some(task);
        }
        if !self.workspace.is_in_place(&task) {
            let is_renamed = self.workspace.renamed(&task).is_some();
            return is_renamed.then_some(task);
        }
        let name = self.next.to_string();
        self.next += 1;
        match self.accessible(|| renameat(&self.workspace.folder, &task.name, &self.folder, &name)) {
            Ok(()) => {
                task.name = name;
                self.used = Some(task);
                None
            }
            Err(_) => Some(task),
        }
    }

    /// Restores the folder that was put aside last. Call it when the agent is idle.
    pub fn tidy(&mut self, remover: &Remover) {
        let Some(mut used) = self.used.take() else { return };
        match used.restore(self.folder.as_fd(), clock::now().wall.before(self.settling)) {
            Ok(()) => {
                self.kept.push(used);
                if self.kept.len() > self.spares_max {
                    let longest_unused = self.kept.remove(0);
                    self.give_up(longest_unused, remover);
                }
            }
            Err(why) => {
                log::debug!("the folder of {} is not used again: {why}", used.path.display());
                self.give_up(used, remover);
            }
        }
    }

    fn accessible<T>(&self, call: impl Fn() -> Result<T>) -> Result<T> {
        accessible(&self.workspace, self.folder.as_fd(), call)
    }

    fn give_up(&self, spare: TaskDir, remover: &Remover) {
        discard(&self.workspace, self.folder.as_fd(), spare, remover);
    }
}

/// As [`Workspace::accessible`], for the folder of this agent, too.
pub(super) fn accessible<T>(
    workspace: &Workspace,
    own_folder: BorrowedFd<'_>,
    call: impl Fn() -> Result<T>,
) -> Result<T> {
    match workspace.accessible(&call) {
        Err(Errno::ACCESS) if restore_mode(own_folder, OWNER_ONLY, &workspace.path.join(SPARE))? => {
            workspace.accessible(call)
        }
        other => other,
    }
}

/// Removes a folder from that of this agent.
pub(super) fn discard(workspace: &Workspace, own_folder: BorrowedFd<'_>, dir: TaskDir, remover: &Remover) {
    let Ok(name) = CString::new(dir.name.as_str()) else { return };
    drop(dir);
    match workspace.remove_from(own_folder, &name, REMOVALS_MAX) {
        Removed::Done => {}
        Removed::Rest(rest) => remover.take(rest),
        Removed::Left(error) => log::error!("{error}"),
    }
}

impl Drop for DirPool {
    fn drop(&mut self) {
        remove_own_folder(&self.workspace, &self.name);
    }
}

/// Removes a folder of this agent, which ends.
pub(super) fn remove_own_folder(workspace: &Workspace, name: &CStr) {
    let Ok(spare) = open_spare(workspace.folder.as_fd()) else { return };
    match workspace.remove_from(spare.as_fd(), name, REMOVALS_MAX) {
        Removed::Left(error) => log::error!("{error}"),
        // The agent ends, and its remover may have ended: only what a mount blocks is tried a second time.
        Removed::Rest(rest) if removal::detach_at_or_below(workspace.trash.as_fd(), rest.name()) => {
            let mut budget = removal::Budget::of(REMOVALS_MAX);
            let _ = removal::remove_tree(workspace.trash.as_fd(), rest.name(), &mut budget);
        }
        Removed::Done | Removed::Rest(_) => {}
    }
    // Fails on purpose if another agent has a folder there.
    let _ = rustix::fs::unlinkat(&workspace.folder, SPARE, AtFlags::REMOVEDIR);
}

/// A new folder for one agent, locked, and its name.
pub(super) fn own_folder(workspace: &Workspace) -> Result<(OwnedFd, CString)> {
    for _ in 0..ATTEMPTS_MAX {
        let name = format!("{}-{:016x}", std::process::id(), rand::random::<u64>());
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        match make_own_folder(workspace, &name) {
            Ok(Some(folder)) => return Ok((folder, name)),
            // Another agent has just removed the common folder, because it was empty, or a remover has removed this agent's
            // folder.
            Ok(None) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::AGAIN)
}

fn make_own_folder(workspace: &Workspace, name: &CStr) -> Result<Option<OwnedFd>> {
    make_folder(&workspace.folder, SPARE)?;
    let spare = open_spare(workspace.folder.as_fd())?;
    rustix::fs::mkdirat(&spare, name, OWNER_ONLY)?;
    lock(spare.as_fd(), name)
}

/// The folder that contains the pools of all agents.
fn open_spare(work: BorrowedFd<'_>) -> Result<OwnedFd> {
    open_own(work, SPARE)
}

/// Takes the lock on the folder of an agent; `None` when it is held or the folder does not exist.
fn lock(spare: BorrowedFd<'_>, name: &CStr) -> Result<Option<OwnedFd>> {
    let folder = match removal::open_on_mount(spare, name) {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error),
    };
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(error) => return Err(error),
    }
    Ok(is_in_place(spare, name, folder.as_fd()).then_some(folder))
}

/// Moves the folders of agents that have ended to the trash.
pub(super) fn discard_abandoned(work: BorrowedFd<'_>, trash: BorrowedFd<'_>) -> Result<()> {
    let spare = match open_spare(work) {
        Ok(spare) => spare,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in Dir::read_from(&spare)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if let Ok(Some(_lock)) = lock(spare.as_fd(), name) {
            super::move_to_trash(spare.as_fd(), name, trash)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
