//! The ends of the outputs of a command, and the signs in them.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use jiff::tz::TimeZone;

use crate::files::results::open_output;
use crate::worker::engine::signs::{OutputEnds, Signs, TAIL_BYTES};
use crate::worker::engine::{Sign, signs};
use base::{ExitCode, Usd, Wall};

/// Bytes of an answer in JSON, whose cost is at its end.
const JSON_BYTES_MAX: usize = 8 << 20;

/// The sign in the outputs of a command, which are in this folder.
pub(super) fn sign(signs: &Signs, exit: ExitCode, folder: &Path, now: Wall) -> Option<Sign> {
    let tail = |name: &str| {
        tail(&folder.join(name)).unwrap_or_else(|error| {
            log::warn!("cannot read {name} of a run: {error}");
            String::new()
        })
    };
    let (out, err) = (tail("out"), tail("err"));
    signs.read(&OutputEnds { exit, out: &out, err: &err }, now, &zone)
}

/// The cost of the run, from its output in this folder. Only an output in JSON contains it.
pub(super) fn cost(folder: &Path) -> Option<Usd> {
    let path = folder.join("out");
    let mut first = [0];
    open_output(&path).ok()?.read_exact_at(&mut first, 0).ok()?;
    if !matches!(&first, b"{" | b"[" | b" " | b"\n") {
        return None;
    }
    signs::cost(&last_bytes(&path, JSON_BYTES_MAX).ok()?)
}

fn tail(path: &Path) -> io::Result<String> {
    last_bytes(path, TAIL_BYTES)
}

fn last_bytes(path: &Path, bytes_max: usize) -> io::Result<String> {
    let file = open_output(path)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(bytes_max as u64);
    let mut bytes = vec![0; usize::try_from(length - from).unwrap_or(bytes_max)];
    file.read_exact_at(&mut bytes, from)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn zone(name: Option<&str>) -> TimeZone {
    name.and_then(|name| TimeZone::get(name).ok()).unwrap_or_else(TimeZone::system)
}
