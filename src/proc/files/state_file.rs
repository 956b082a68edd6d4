//! Small files in STATE_DIR with one JSON value each, which are replaced as a whole.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::draft::SHARED;

/// Maximum bytes of a file. A longer one is not ours.
const BYTES_MAX: u64 = 64 * 1024;

/// Reads a value.
pub fn read<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let mut text = Vec::new();
    File::open(path)?.take(BYTES_MAX).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// Replaces a file: a reader sees the old or the new value.
pub fn replace(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    super::draft::replace(path, SHARED, |file| file.write_all(&text))
}
