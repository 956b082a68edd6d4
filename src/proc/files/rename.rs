//! Moves files without ever overwriting one.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, RenameFlags, linkat, renameat_with};
use rustix::io::Errno;

/// Renames a file. An existing file at `to` stays and causes an error of the kind `AlreadyExists`.
///
/// # Errors
/// The error of the system. The file is still at `from`.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system has no such rename (NFS).
        Err(Errno::INVAL | Errno::NOSYS) => link_new(from, to),
        result => Ok(result?),
    }
}

/// Renames by a second link to the file, which never overwrites. A process that is killed in between leaves both names,
/// which [`is_same_file`] detects.
fn link_new(from: &Path, to: &Path) -> io::Result<()> {
    match linkat(CWD, from, CWD, to, AtFlags::empty()) {
        Ok(()) => fs::remove_file(from),
        // A folder, or a file system without links. Another file may still appear between the check and the rename.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
            if to.symlink_metadata().is_ok() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(from, to)
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether both names exist and refer to the same file.
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |path: &Path| path.symlink_metadata().map(|file| (file.dev(), file.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

/// Moves a regular file to `to`. If that is on another file system, the file is copied and synced before it gets its
/// name there, and `from` stays.
///
/// # Errors
/// See [`rename_new`].
pub fn place_new(from: &Path, to: &Path) -> io::Result<()> {
    match rename_new(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => copy_new(from, to),
        result => result,
    }
}

fn copy_new(from: &Path, to: &Path) -> io::Result<()> {
    let draft = to.with_file_name(format!(".draft-{:016x}", rand::random::<u64>()));
    let placed = copy(from, &draft).and_then(|()| rename_new(&draft, to));
    if placed.is_err() {
        // The draft is ours, or does not exist.
        let _ = fs::remove_file(&draft);
    }
    placed
}

fn copy(from: &Path, to: &PathBuf) -> io::Result<()> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let mut source = File::options().read(true).custom_flags(flags).open(from)?;
    if !source.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} is not a regular file", from.display())));
    }
    let mut target = File::create_new(to)?;
    io::copy(&mut source, &mut target)?;
    target.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_way_to_move_a_file_replaces_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        for (index, way) in [rename_new, link_new, place_new, copy_new].into_iter().enumerate() {
            fs::write(&from, "new").unwrap();
            fs::write(&to, "old").unwrap();
            assert_eq!(way(&from, &to).unwrap_err().kind(), io::ErrorKind::AlreadyExists, "{index}");
            assert_eq!([&from, &to].map(|path| fs::read_to_string(path).unwrap()), ["new", "old"], "{index}");
            fs::remove_file(&to).unwrap();
            way(&from, &to).unwrap();
            assert_eq!(fs::read_to_string(&to).unwrap(), "new", "{index}");
            let left = fs::read_dir(folder.path()).unwrap().count();
            assert!(left <= 2, "{index}: a draft is left");
        }
    }

    #[test]
    fn a_folder_is_moved_where_there_are_no_links_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
        fs::create_dir(&from).unwrap();
        link_new(&from, &to).unwrap();
        assert!(to.is_dir() && !from.exists());
    }

    #[test]
    fn two_names_of_one_file_are_known_for_that() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other, third] = ["one", "other", "third"].map(|name| folder.path().join(name));
        fs::write(&one, "x").unwrap();
        fs::hard_link(&one, &other).unwrap();
        fs::write(&third, "x").unwrap();
        assert!(is_same_file(&one, &other) && !is_same_file(&one, &third));
        assert!(!is_same_file(&one, &folder.path().join("missing")));
    }
}
