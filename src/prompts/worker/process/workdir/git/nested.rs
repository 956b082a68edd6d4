//! Repositories below the top of a worktree, of which a commit would name no more than a commit.

use std::fs;
use std::path::{Path, PathBuf};

use super::LINK;

/// The folders below `top` that have an entry `.git`, as paths from `top`. No link is followed.
pub(super) fn find(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(folder) = open.pop() {
        // A folder that cannot be read cannot be committed either, and git reports that.
        for entry in fs::read_dir(top.join(&folder)).into_iter().flatten().flatten() {
            if entry.file_name() == LINK {
                if !folder.as_os_str().is_empty() {
                    found.push(folder.clone());
                }
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(folder.join(entry.file_name()));
            }
        }
    }
    found
}
