//! The SHA-256 of a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use base::ToolDigest;

/// Bytes read at a time.
const CHUNK_BYTES: usize = 1 << 17;

/// The digest of a whole file, without moving its cursor.
///
/// # Errors
/// When it cannot be read.
pub fn digest_of(file: &File) -> io::Result<ToolDigest> {
    read(file, u64::MAX).map(|(digest, _)| digest)
}

/// The digest of a file with exactly this number of bytes; `None` for any other. A file that the kernel generates, such
/// as one in `/proc`, differs in size from its `stat` and may never end, so it is not read much further than `size`.
///
/// # Errors
/// When it cannot be read.
pub fn digest_of_size(file: &File, size: u64) -> io::Result<Option<ToolDigest>> {
    let (digest, bytes) = read(file, size)?;
    Ok((bytes == size).then_some(digest))
}

/// The digest of a file, and the number of bytes it covers: all, or at least one more than `enough`.
fn read(file: &File, enough: u64) -> io::Result<(ToolDigest, u64)> {
    let (mut hash, mut chunk, mut at) = (Sha256::new(), vec![0; CHUNK_BYTES], 0);
    while at <= enough {
        let bytes = match file.read_at(&mut chunk, at) {
            Ok(0) => break,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        at += bytes as u64;
        hash.update(&chunk[..bytes]);
    }
    Ok((ToolDigest::new(hash.finalize().into()), at))
}

/// The digest of the file at a path.
///
/// # Errors
/// When it cannot be read.
pub fn digest_at(path: &Path) -> io::Result<ToolDigest> {
    digest_of(&File::open(path)?)
}
