//! The SHA-256 of a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::types::ToolDigest;

/// Bytes that are read at a time.
const CHUNK_BYTES: usize = 1 << 17;

/// The digest of a file from its first byte, without moving its cursor.
///
/// # Errors
/// When it cannot be read.
pub fn digest_of(file: &File) -> io::Result<ToolDigest> {
    let (mut hash, mut chunk, mut at) = (Sha256::new(), vec![0; CHUNK_BYTES], 0);
    loop {
        let bytes = match file.read_at(&mut chunk, at) {
            Ok(0) => return Ok(ToolDigest::new(hash.finalize().into())),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        at += bytes as u64;
        hash.update(&chunk[..bytes]);
    }
}

/// The digest of the file at a path.
///
/// # Errors
/// When it cannot be read.
pub fn digest_at(path: &Path) -> io::Result<ToolDigest> {
    digest_of(&File::open(path)?)
}
