//! The folders of tools that stay, which outlive the task that they were made for: beside the spare folders of this agent
//! ([`super::dir_pool`]), where the next agent finds and removes those of a killed one.

use std::ffi::CString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, renameat, unlinkat};
use rustix::io::Errno;

use super::dir_pool::{SPARE, accessible, discard, own_folder, remove_own_folder};
use super::{Remover, TaskDir, Workspace, WorkspaceError};

/// See the [module](self).
#[derive(Debug)]
pub struct Homes {
    workspace: Arc<Workspace>,
    folder: OwnedFd,
    name: CString,
    next: AtomicU64,
}

impl Homes {
    /// Makes the folder for the homes of this agent.
    ///
    /// # Errors
    /// When it can neither be made nor locked.
    pub fn open(workspace: Arc<Workspace>) -> Result<Self, WorkspaceError> {
        let path = workspace.path.join(SPARE);
        let failed = |error: Errno| WorkspaceError { action: "keep tools in", path, source: error.into() };
        let (folder, name) = own_folder(&workspace).map_err(failed)?;
        Ok(Self { workspace, folder, name, next: AtomicU64::new(0) })
    }

    /// Makes the folder of a task the home of its tool, without these files. The task needs another one.
    ///
    /// # Errors
    /// When it cannot be moved; it is returned.
    pub fn adopt(&self, mut dir: TaskDir, of_task: &[&str]) -> Result<TaskDir, Box<(TaskDir, WorkspaceError)>> {
        let name = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        match accessible(&self.workspace, self.folder.as_fd(), || {
            renameat(&self.workspace.folder, &dir.name, &self.folder, &name)
        }) {
            Ok(()) => {
                dir.path = self.workspace.path.join(SPARE).join(&*self.name.to_string_lossy()).join(&name);
                dir.name = name;
                of_task.iter().for_each(|name| dir.forget(name));
                Ok(dir)
            }
            Err(error) => {
                let failed = WorkspaceError { action: "move", path: dir.path.clone(), source: error.into() };
                Err(Box::new((dir, failed)))
            }
        }
    }

    /// Removes a home, whose tool has ended.
    pub fn remove(&self, home: TaskDir, remover: &Remover) {
        discard(&self.workspace, self.folder.as_fd(), home, remover);
    }

    /// Removes all of them: the agent ends.
    pub fn close(&self) {
        remove_own_folder(&self.workspace, &self.name);
    }
}

impl TaskDir {
    /// Removes a file, if there is one.
    pub fn forget(&mut self, name: &str) {
        self.files.retain(|file| !file.is_called(name));
        // An error means that there is none.
        let _ = unlinkat(&self.folder, name, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    /// A tool runs as the same user as its agent, and can change the modes of the agent's own folders.
    #[test]
    fn a_folder_becomes_a_home_after_a_change_of_modes() {
        // Root is exempt from modes by these capabilities; they belong to the thread.
        let mut present = capabilities(None).unwrap();
        present.effective.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
        set_capabilities(None, present).unwrap();
        let around = tempfile::tempdir().unwrap();
        let workspace = Arc::new(Workspace::open(around.path()).unwrap());
        let homes = Homes::open(Arc::clone(&workspace)).unwrap();
        let own = around.path().join(SPARE).join(homes.name.to_str().unwrap());
        for closed in [around.path(), &own] {
            let (dir, _) = workspace.create("TASK_1480000000.120000_AZazA".parse().unwrap()).unwrap();
            fs::set_permissions(closed, Permissions::from_mode(0o000)).unwrap();
            homes.adopt(dir, &[]).unwrap();
        }
        homes.close();
    }
}
