//! The outputs of a run: read while it writes, and moved out of its folder when no process of it is left.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, renameat, statat};

use super::{TaskDir, Workspace, tail};
use base::TaskId;
use proc::files::removal;

impl Workspace {
    /// The work folder, open.
    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// The folder that a dead agent has left of a run; `None` if there is none.
    #[must_use]
    pub fn left_of(&self, task: TaskId) -> Option<TaskDir> {
        let name = task.to_string();
        let path = self.path.join(&name);
        let folder = removal::open_folder(self.folder.as_fd(), Path::new(&name)).ok()?;
        Some(TaskDir { name, path, folder, files: Vec::new(), reusable: None })
    }
}

impl TaskDir {
    /// The names of the folders in the work folder, one of which is that of the tool.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn folders(&self) -> io::Result<Vec<String>> {
        let mut folders = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            match entry.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) if entry.file_type() == FileType::Directory => folders.push(name.to_owned()),
                Ok(_) => {}
            }
        }
        Ok(folders)
    }

    /// An output for reading. A file made by llts is the very one that the run got, even if its name has changed. Use it
    /// only as long as the folder belongs to this run: the next run may get the same file.
    ///
    /// # Errors
    /// When the file of a tool does not exist, or is not a regular file with one name.
    pub fn live_output(&self, folders: &[&str], name: &str) -> io::Result<File> {
        let own = self.files.iter().filter(|_| folders.is_empty()).find(|file| file.is_called(name));
        match own {
            // A copy of the descriptor, because another opening would look like a process that still has the file open.
            Some(file) => Ok(file.as_fd().try_clone_to_owned()?.into()),
            None => Ok(tail::open_regular(self.folder.as_fd(), folders, name)?),
        }
    }

    /// The folder in which a file would appear.
    ///
    /// # Errors
    /// When it does not exist, or a link leads to it.
    pub fn folder_of(&self, folders: &[&str]) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut folder = self.folder.as_fd().try_clone_to_owned()?;
        for step in folders {
            folder = openat(&folder, *step, flags, Mode::empty())?;
        }
        Ok(folder)
    }

    /// Moves an output to another folder of the same file system. Call it when no process of the run is left. A reusable
    /// folder stays reusable: the next run gets a new file.
    ///
    /// # Errors
    /// When it cannot be moved, or the run has put something else in its place.
    pub fn move_output(
        &mut self,
        (folders, name): (&[&str], &str),
        (to, new_name): (BorrowedFd<'_>, &str),
    ) -> io::Result<()> {
        let replaced = || io::Error::other("the run has put something else in its place");
        let folder = self.folder_of(folders)?;
        let own = self.files.iter().position(|file| folders.is_empty() && file.is_called(name));
        let named = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|_| replaced())?;
        let is_regular = FileType::from_raw_mode(named.st_mode) == FileType::RegularFile && named.st_nlink == 1;
        let is_made = match own {
            Some(at) => {
                let made = rustix::fs::fstat(&self.files[at])?;
                (named.st_dev, named.st_ino) == (made.st_dev, made.st_ino)
            }
            None => true,
        };
        if !is_regular || !is_made {
            return Err(replaced());
        }
        // The kernel refuses this for a file of another file system that the run has mounted in its folder.
        renameat(&folder, name, to, new_name)?;
        if let Some(at) = own {
            self.files.remove(at);
        }
        Ok(())
    }
}
