//! A copy of a folder with everything in it except `.tasks/`: files that share their blocks with the original where the file system
//! can do that, or without their holes, their times, folders, and symbolic links as they are.

use std::fs::{self, DirBuilder, File, FileTimes, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{ioctl_ficlone, seek};
use rustix::io::Errno;

use crate::files::create::TASKS;
use proc::files::disk_room::check_room;

/// Bytes between two looks at the free space, and at `stop`.
const CHUNK_BYTES: u64 = 16 << 20;

/// Copies `from` to `to`, which does not exist. Files that vanish meanwhile are left out, and so are sockets, pipes and devices.
///
/// # Errors
/// The error of the system, with a path; or when `stop` was set.
pub(super) fn copy(from: &Path, to: &Path, stop: &AtomicBool) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(to)?;
    copy_entries(from, to, stop, true)
}

fn copy_entries(from: &Path, to: &Path, stop: &AtomicBool, is_root: bool) -> io::Result<()> {
    for entry in fs::read_dir(from).map_err(|error| at(from, &error))? {
        let entry = entry?;
        if is_root && entry.file_name() == TASKS {
            continue;
        }
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        match copy_entry(&source, &target, stop) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && source.symlink_metadata().is_err() => {}
            copied => copied?,
        }
    }
    Ok(())
}

fn copy_entry(source: &Path, target: &Path, stop: &AtomicBool) -> io::Result<()> {
    let metadata = source.symlink_metadata()?;
    let kind = metadata.file_type();
    let failed = |error: io::Error| at(source, &error);
    if kind.is_dir() {
        DirBuilder::new().mode(0o700).create(target).map_err(failed)?;
        copy_entries(source, target, stop, false)?;
        // Afterwards, because nothing can be put into a folder that is read-only.
        fs::set_permissions(target, metadata.permissions()).map_err(failed)
    } else if kind.is_symlink() {
        symlink(fs::read_link(source)?, target).map_err(failed)
    } else if kind.is_file() {
        copy_file(source, target, &metadata, stop).map_err(failed)
    } else {
        Ok(())
    }
}

fn copy_file(source: &Path, target: &Path, metadata: &Metadata, stop: &AtomicBool) -> io::Result<()> {
    let mut from = File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(source)?;
    let mut to = File::options().write(true).create_new(true).mode(0o600).open(target)?;
    if ioctl_ficlone(&to, &from).is_err() {
        let mut at = 0;
        while let Some((start, length)) = next_data(&from, at)? {
            if stop.load(Ordering::Relaxed) {
                return Err(io::Error::other("the worker is being stopped"));
            }
            check_room(target.parent().unwrap_or(target))?;
            from.seek(SeekFrom::Start(start))?;
            to.seek(SeekFrom::Start(start))?;
            let copied = io::copy(&mut (&mut from).take(length.min(CHUNK_BYTES)), &mut to)?;
            if copied == 0 {
                break;
            }
            at = start + copied;
        }
        // The file may end with a hole.
        to.set_len(from.metadata()?.len().max(at))?;
    }
    // The owner and the bits beyond rwx are those of the worker.
    to.set_permissions(fs::Permissions::from_mode(metadata.permissions().mode() & 0o777))?;
    // With new times, a build tool would build everything again.
    to.set_times(FileTimes::new().set_modified(metadata.modified()?))
}

/// The next bytes of a file from this position that are no hole: their position and their number. `None` if there are no more.
fn next_data(file: &File, at: u64) -> io::Result<Option<(u64, u64)>> {
    let end = file.metadata()?.len();
    if at >= end {
        return Ok(None);
    }
    let start = match seek(file, rustix::fs::SeekFrom::Data(at)) {
        Err(Errno::NXIO) => return Ok(None),
        // The file system knows no holes.
        found => found.unwrap_or(at),
    };
    let hole = seek(file, rustix::fs::SeekFrom::Hole(start)).unwrap_or(end);
    Ok(Some((start, hole.saturating_sub(start).max(1))))
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    // A path is named once, by the innermost call.
    if error.get_ref().is_some_and(|inner| inner.to_string().contains('/')) {
        return io::Error::new(error.kind(), error.to_string());
    }
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_copy_has_everything_but_the_prompts() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir_all(from.join(".tasks/pending")).unwrap();
        fs::create_dir_all(from.join("a/.tasks")).unwrap();
        fs::write(from.join("a/run.sh"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(from.join("a/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(from.join("a"), fs::Permissions::from_mode(0o555)).unwrap();
        symlink("nowhere", from.join("link")).unwrap();
        nix::unistd::mkfifo(&from.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        copy(&from, &to, &AtomicBool::new(false)).unwrap();
        assert!(!to.join(".tasks").exists() && to.join("a/.tasks").exists() && !to.join("pipe").exists());
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("nowhere"));
        let [old, new] = [&from, &to].map(|folder| fs::metadata(folder.join("a/run.sh")).unwrap());
        assert_eq!((old.permissions(), old.modified().unwrap()), (new.permissions(), new.modified().unwrap()));
        assert_eq!(fs::read_to_string(to.join("a/run.sh")).unwrap(), "#!/bin/sh\n");
        fs::write(from.join("b"), "x").unwrap();
        let stopped = copy(&from, &place.path().join("other"), &AtomicBool::new(true)).unwrap_err().to_string();
        assert!(stopped.ends_with("the worker is being stopped"), "{stopped}");
        for folder in [&from, &to] {
            fs::set_permissions(folder.join("a"), fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    #[test]
    fn the_holes_of_a_file_are_no_blocks_of_its_copy() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir(&from).unwrap();
        let mut file = File::create(from.join("sparse")).unwrap();
        file.seek(SeekFrom::Start(64 << 20)).unwrap();
        io::Write::write_all(&mut file, b"middle").unwrap();
        file.set_len(200 << 20).unwrap();
        fs::write(from.join("dense"), vec![7; 3 << 20]).unwrap();
        copy(&from, &to, &AtomicBool::new(false)).unwrap();
        let blocks = |folder: &Path| fs::metadata(folder.join("sparse")).unwrap().blocks();
        // A file system without holes has nothing to keep.
        assert!(blocks(&to) <= blocks(&from) + 8, "{} {}", blocks(&from), blocks(&to));
        assert!(fs::read(to.join("dense")).unwrap() == vec![7; 3 << 20]);
        let copied = fs::read(to.join("sparse")).unwrap();
        assert!(copied.len() == 200 << 20 && copied[64 << 20..].starts_with(b"middle\0"));
        assert!(copied.iter().filter(|byte| **byte != 0).count() == 6);
    }
}
