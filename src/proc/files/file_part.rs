//! Reads a part of a file that another process may still be writing.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Reads `length` bytes from offset `at`, or fewer if the file has become shorter. The cursor of the file does not matter.
///
/// # Errors
/// The error of the system.
pub fn read_part(file: &File, at: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], at + filled as u64) {
            // A process that survives all signals may have truncated it.
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
