//! Unix socket paths of any length. The kernel accepts only short ones. A longer one is replaced by the descriptor of
//! its folder in `/proc` and its name in that folder.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

/// Longest path that the kernel accepts, without the final zero byte.
pub const PATH_BYTES_MAX: usize = 107;

/// A path that the kernel accepts as long as this value lives.
#[derive(Debug)]
pub(super) struct SocketPath {
    path: PathBuf,
    _folder: Option<OwnedFd>,
}

impl SocketPath {
    /// # Errors
    /// When the folder of a long path cannot be opened, or the name in it is too long.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        if path.as_os_str().as_bytes().len() <= PATH_BYTES_MAX {
            return Ok(Self { path: path.to_owned(), _folder: None });
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let folder = open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        Ok(Self { path, _folder: Some(folder) })
    }

    pub(super) fn as_path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::sockets::probe_unix;

    #[test]
    fn a_path_of_any_length_is_bound_and_reached() {
        let folder = tempfile::tempdir().unwrap();
        let mut deep = folder.path().to_owned();
        while deep.as_os_str().len() < 3_900 {
            deep.push("x".repeat(100));
        }
        std::fs::create_dir_all(&deep).unwrap();
        for path in [folder.path().join("short"), deep.join("socket")] {
            let refused = probe_unix(&path).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::NotFound);
            let _listener = UnixListener::bind(SocketPath::of(&path).unwrap().as_path()).unwrap();
            probe_unix(&path).unwrap();
        }
    }
}
