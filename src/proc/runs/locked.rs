//! Files whose lock shows that a process lives, and that other processes remove when it does not.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Attempts to lock a file that other processes remove. Each lost attempt is due to one worker that does so at the same
/// moment.
const LOCKS_MAX: u32 = 100;

/// Opens a file, creating it if it is missing; then locks it. It may be a new file by then, if another process that found
/// it unlocked has removed it. The second value is the result of the lock: some file systems have none.
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
