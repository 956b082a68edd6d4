//! Files whose lock shows that a process lives. Other processes remove them when it is dead.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Maximum attempts to lock a file that other processes may remove. Each failed attempt means that a worker removed it
/// at the same moment.
const LOCKS_MAX: u32 = 100;

/// Opens a file, creating it if necessary, and locks it. If another process that found it unlocked removes it
/// meanwhile, starts again with a new file. The second value is the result of the lock, because some file systems have
/// no locks.
pub fn open(path: &Path, mode: u32, lock: impl Fn(&File) -> io::Result<()>) -> io::Result<(File, io::Result<()>)> {
    for _ in 0..LOCKS_MAX {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let mut options = File::options();
        let file =
            options.read(true).write(true).create(true).truncate(false).mode(mode).custom_flags(flags).open(path)?;
        let locked = lock(&file);
        if locked.is_err() {
            return Ok((file, locked));
        }
        let (held, named) = (file.metadata()?, path.symlink_metadata());
        if named.is_ok_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino())) {
            return Ok((file, locked));
        }
    }
    Err(io::Error::other(format!("{} is removed again and again", path.display())))
}
