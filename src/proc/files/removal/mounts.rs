//! Lists the mounts at or below a path, as the kernel knows them, and unmounts them.

use std::ffi::{CStr, OsString};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::{Errno, Result};
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};

use super::path_below;

/// Maximum rounds of unmounting. A round removes at least one mount, which may uncover others. The bound keeps a tool
/// that goes on mounting from blocking the caller for ever.
const ROUNDS_MAX: u32 = 1000;

/// One line of `mountinfo`.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    id: u64,
    point: PathBuf,
}

/// Whether there is a mount at or below the path. Also true when that cannot be determined.
pub fn is_mount_at_or_below(parent: BorrowedFd<'_>, name: &CStr) -> bool {
    path_below(parent, name).and_then(|path| at_or_below(&path)).map_or(true, |mounts| !mounts.is_empty())
}

/// Lazily unmounts what is mounted there, so that mounts in use are detached as well. Logs what was found. Returns
/// whether at least one mount is gone.
pub fn detach_at_or_below(parent: BorrowedFd<'_>, name: &CStr) -> bool {
    let mut detached = false;
    let Ok(path) = path_below(parent, name) else { return false };
    for round in 0..ROUNDS_MAX {
        let mounts = match at_or_below(&path) {
            Ok(mounts) => mounts,
            Err(error) => {
                log::warn!("cannot list the mounts below {}: {error}", path.display());
                return detached;
            }
        };
        if mounts.is_empty() {
            return detached;
        }
        if round == 0 {
            let points: Vec<_> = mounts.iter().map(|mount| mount.point.to_string_lossy()).collect();
            log::warn!(
                "a tool has left something mounted in {}, at {}: nothing behind it is removed; unmounting it",
                path.display(),
                points.join(", ")
            );
        }
        match detach(&mounts) {
            Ok(()) => detached = true,
            Err(error) => {
                log::warn!(
                    "cannot unmount the mount in {}: {error}; the folder stays until it is unmounted",
                    path.display()
                );
                return detached;
            }
        }
    }
    detached
}

/// Unmounts the mounts that no other mount covers: at least one.
fn detach(mounts: &[Mount]) -> Result<()> {
    let mut places = Vec::with_capacity(mounts.len());
    let mut error = Errno::BUSY;
    for mount in mounts {
        // A mount that another one covers has no path of its own: the path does not exist, or leads to the other mount.
        match open_place(&mount.point).and_then(|place| Ok((id_of(place.as_fd())?, place))) {
            Ok((id, place)) if id == mount.id => places.push(place),
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(other) => error = other,
        }
    }
    // By descriptor, so that no component of the path can be replaced meanwhile.
    let path = |place: &OwnedFd| format!("/proc/self/fd/{}", place.as_raw_fd());
    // All descriptors are opened before the first unmount: a recursive bind mount shares its mounts with the original, and
    // unmounting them here would unmount them there, too.
    for place in &places {
        mount_change(path(place), MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    }
    // The last entry of the list is the topmost mount. A mount that went together with another one cannot be unmounted
    // again.
    let results: Vec<Result<()>> =
        places.iter().rev().map(|place| unmount(path(place), UnmountFlags::DETACH)).collect();
    let failed = || results.iter().find_map(|result| result.err()).unwrap_or(error);
    if results.iter().any(Result::is_ok) { Ok(()) } else { Err(failed()) }
}

fn open_place(point: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat2(CWD, point, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Err(Errno::NOSYS | Errno::PERM) => openat(CWD, point, flags, Mode::empty()),
        opened => opened,
    }
}

/// The number of the mount that an open file is on.
pub(super) fn id_of(file: BorrowedFd<'_>) -> Result<u64> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let id = info.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    id.ok_or(Errno::NOTSUP)
}

/// The mounts at `path` or below it, in the order of the list.
fn at_or_below(path: &Path) -> Result<Vec<Mount>> {
    // For this thread, because threads may be in different mount namespaces.
    let list = std::fs::read("/proc/thread-self/mountinfo")
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let mounts = list.split(|&byte| byte == b'\n').filter_map(parse);
    Ok(mounts.filter(|mount| mount.point.starts_with(path)).collect())
}

/// Parses `36 35 98:0 /root /point rw …`.
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let point = unescaped(fields.nth(3)?);
    Some(Mount { id, point: PathBuf::from(OsString::from_vec(point)) })
}

/// Decodes a field of `mountinfo`, in which blanks and similar characters are written as `\040`.
pub(crate) fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = tail.get(..3).filter(|_| byte == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        let (byte, tail) = match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => (byte, tail.get(3..).unwrap_or_default()),
            None => (byte, tail),
        };
        out.push(byte);
        rest = tail;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_list_is_understood() {
        let line = b"36 35 98:0 /mnt1 /a\\040b\\134c rw,noatime master:1 - ext3 /dev/root rw";
        assert_eq!(parse(line), Some(Mount { id: 36, point: PathBuf::from("/a b\\c") }));
        assert_eq!(parse(b""), None);
    }
}
