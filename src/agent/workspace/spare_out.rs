//! The folder for the outputs of a task of a step that has left none, kept for the next one: to make and remove a folder
//! costs four times as much as to move it twice.
//!
//! ```text
//! .spare/<pid>-*/out   at most one
//! ```

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::result::Result;

use rustix::fs::{RenameFlags, renameat, renameat_with};

use super::out_folders::OutFolder;
use super::pinned_folder::PinnedFolder;
use super::{DirPool, TrashRemainder, WorkspaceError};
use base::{GraphId, TaskId};
use proc::files::removal;

const SPARE_OUT: &CStr = c"out";

impl DirPool {
    /// As [`super::Workspace::make_out`], with the folder of an earlier task if there is one.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make_out(
        &mut self,
        graph: GraphId,
        task: TaskId,
    ) -> Result<(OutFolder, Option<TrashRemainder>), WorkspaceError> {
        let mut spare = self.spare_out.take().filter(PinnedFolder::is_empty);
        if spare.as_mut().is_some_and(|spare| spare.check((self.folder.as_fd(), SPARE_OUT), None).is_err()) {
            spare = None;
        }
        let place = |of_graph: BorrowedFd<'_>, name: &CStr| {
            renameat_with(&self.folder, SPARE_OUT, of_graph, name, RenameFlags::NOREPLACE)
        };
        let Some(spare) = spare else {
            let (mut out, rest) = self.workspace.make_out(graph, task)?;
            out.pinned = pin(out.of_graph.as_fd(), &out.name);
            return Ok((out, rest));
        };
        match self.workspace.make_out_with(graph, task, place) {
            Ok((mut out, rest)) => {
                out.pinned = Some(spare);
                Ok((out, rest))
            }
            // A mount between both, or the folder is gone since the look at it.
            Err(_) => self.workspace.make_out(graph, task),
        }
    }

    /// Keeps the folder of a task that has ended; false if it is not empty, or is not what was made.
    pub(super) fn keep_out(&mut self, out: &mut OutFolder) -> bool {
        let Some(mut folder) = out.pinned.take().filter(PinnedFolder::is_empty) else { return false };
        // A tool may have put another folder into its place.
        let kept = folder.check((out.of_graph.as_fd(), &out.name), None).is_ok()
            && renameat(&out.of_graph, &out.name, &self.folder, SPARE_OUT).is_ok();
        if kept {
            self.spare_out = Some(folder);
        }
        kept
    }
}

/// Records what a new folder is like; `None` if it can be used only once.
fn pin(of_graph: BorrowedFd<'_>, name: &CStr) -> Option<PinnedFolder> {
    PinnedFolder::new(removal::open_on_mount(of_graph, name).ok()?).ok()
}
