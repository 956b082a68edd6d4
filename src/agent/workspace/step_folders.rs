//! The folders of a task of a step in a task folder that the next task of a step gets again, empty: [`PROVIDE`] and
//! [`INPUTS`]. To make and remove both costs as much as all the rest of a short task's folder.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};

use super::pinned_file::NotReusable;
use super::pinned_folder::PinnedFolder;
use api::wire::step_files;
use base::Wall;
use proc::files::removal;
use proc::files::removal::Budget;

/// [`step_files::PROVIDE`].
pub(super) const PROVIDE: &CStr = c"provide";
/// [`step_files::INPUTS`].
pub(super) const INPUTS: &CStr = c"inputs";

/// Both folders, open.
#[derive(Debug)]
pub(super) struct StepFolders {
    provide: PinnedFolder,
    inputs: PinnedFolder,
}

impl StepFolders {
    /// Takes charge of the folders that were just made in a task folder.
    ///
    /// # Errors
    /// [`NotReusable`], when they cannot be used twice.
    pub(super) fn new(top: BorrowedFd<'_>) -> Result<Self, NotReusable> {
        let open = |name: &CStr| PinnedFolder::new(removal::open_folder(top, removal::path_of(name))?);
        Ok(Self { provide: open(PROVIDE)?, inputs: open(INPUTS)? })
    }

    /// Whether an entry of a task folder is one of them.
    pub(super) fn hold(name: &CStr) -> bool {
        [step_files::PROVIDE, step_files::INPUTS].map(str::as_bytes).contains(&name.to_bytes())
    }

    /// Empties both.
    ///
    /// # Errors
    /// [`NotReusable`], when one differs from what was made, or cannot be emptied.
    pub(super) fn restore(
        &mut self,
        top: BorrowedFd<'_>,
        budget: &mut Budget<'_>,
        settled_before: Option<Wall>,
    ) -> Result<(), NotReusable> {
        self.provide.restore((top, PROVIDE), |_| false, budget, settled_before)?;
        self.inputs.restore((top, INPUTS), |_| false, budget, settled_before)
    }

    /// Whether both are unchanged since [`Self::restore`].
    pub(super) fn are_as_left(&self, top: BorrowedFd<'_>) -> bool {
        self.provide.pinned.is_as_left(top, PROVIDE) && self.inputs.pinned.is_as_left(top, INPUTS)
    }

    /// The folder of the inputs.
    pub(super) fn inputs(&self) -> BorrowedFd<'_> {
        self.inputs.pinned.as_fd()
    }

    /// Whether a run has certainly put nothing into [`PROVIDE`].
    pub(super) fn is_nothing_provided(&self, top: BorrowedFd<'_>) -> bool {
        self.provide.pinned.is_still_settled(top, PROVIDE)
    }

    #[cfg(test)]
    pub(super) const fn is_settled(&self) -> bool {
        self.provide.pinned.has_settled() && self.inputs.pinned.has_settled()
    }
}
