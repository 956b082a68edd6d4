//! A second place for the archives and files, which the controllers of other machines see. It is the place of the queue, if that is
//! in a server.
//!
//! | event | then |
//! |---|---|
//! | a file is complete in the folder | it is sent, in steps, and its sender hears that it is complete when the mirror has it too |
//! | a file is needed that the folder lacks, or has with other bytes | it is fetched, in steps, and checked before it gets its name |
//! | a file is removed, or a name gets another version | in the mirror first; a controller that does not lead any more changes nothing |
//! | this controller begins | files that only the folder has are sent between other work |

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use super::log;
use base::ToolDigest;
use proc::files::file_digest::digest_of;

/// Maximum bytes that are sent or fetched in one step.
const STEP_BYTES: u64 = 8 << 20;

/// The beginning of the name of a file that is being fetched.
pub(super) const FETCHED: &str = ".fetched-";

/// A place that other machines see.
pub trait Mirror: Send {
    /// The home of this controller, and its machine.
    fn home(&self) -> String;

    /// Bytes of each part of a file, except the last one.
    fn part_bytes(&self) -> u64;

    /// The files that are whole.
    ///
    /// # Errors
    /// When the place cannot be reached.
    fn files(&mut self) -> io::Result<Vec<(ToolDigest, u64)>>;

    /// Puts a part.
    ///
    /// # Errors
    /// When the place cannot be reached.
    fn put_part(&mut self, digest: &ToolDigest, number: u64, part: &[u8]) -> io::Result<()>;

    /// All parts have been put. False if some are missing.
    ///
    /// # Errors
    /// When the place cannot be reached.
    fn put_file(&mut self, digest: &ToolDigest, bytes: u64) -> io::Result<bool>;

    /// A part of a whole file.
    ///
    /// # Errors
    /// When the place cannot be reached.
    fn part(&mut self, digest: &ToolDigest, number: u64) -> io::Result<Option<Vec<u8>>>;

    /// Removes a file.
    ///
    /// # Errors
    /// When the place cannot be reached, or another controller leads.
    fn remove(&mut self, digest: &ToolDigest) -> io::Result<()>;

    /// The lines of the log of the tools.
    ///
    /// # Errors
    /// When the place cannot be reached.
    fn log(&mut self) -> io::Result<Vec<String>>;

    /// Adds a line to the log of the tools.
    ///
    /// # Errors
    /// When the place cannot be reached, or another controller leads.
    fn add_to_log(&mut self, line: &str) -> io::Result<()>;
}

/// Fetches the files that a folder lacks, and the log.
///
/// # Errors
/// When the mirror cannot be reached, or a file there has other bytes than its digest says.
pub fn fetch_all(mirror: Box<dyn Mirror>, dir: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(dir)?;
    let mut mirrored = Mirrored::open(mirror)?;
    let missing: Vec<_> =
        mirrored.whole.keys().filter(|digest| !dir.join(digest.to_string()).exists()).copied().collect();
    for digest in missing {
        let (part, path) = (dir.join(format!("{FETCHED}{digest}")), dir.join(digest.to_string()));
        let is_whole = loop {
            match mirrored.fetch(&digest, &part)? {
                Some(false) => {}
                fetched => break fetched.is_some(),
            }
        };
        if !is_whole {
            return Err(io::Error::other(format!("the file {digest} has other bytes than its digest says")));
        }
        fs::rename(part, path)?;
    }
    log::PushLog::open(dir, Some(&mut mirrored)).map(drop)
}

/// Sends the files and the log of a folder to an empty mirror.
///
/// # Errors
/// When the mirror cannot be reached.
pub fn send_all(mirror: Box<dyn Mirror>, dir: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(dir)?;
    let mut mirrored = Mirrored::open(mirror)?;
    log::PushLog::open(dir, Some(&mut mirrored))?;
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let Some(digest) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        while !mirrored.send(&digest, &dir.join(&name))? {}
    }
    Ok(())
}

/// The mirror of a folder, and the part of each file that it has.
pub(super) struct Mirrored {
    mirror: Box<dyn Mirror>,
    whole: BTreeMap<ToolDigest, u64>,
    /// For files that are not whole there, the number of parts that have been sent.
    sent: BTreeMap<ToolDigest, u64>,
}

impl Mirrored {
    pub(super) fn open(mut mirror: Box<dyn Mirror>) -> io::Result<Self> {
        let whole = mirror.files()?.into_iter().collect();
        Ok(Self { mirror, whole, sent: BTreeMap::new() })
    }

    pub(super) fn home(&self) -> String {
        self.mirror.home()
    }

    /// The files that are whole there, each with its size.
    pub(super) const fn files(&self) -> &BTreeMap<ToolDigest, u64> {
        &self.whole
    }

    /// Sends a step of a file. Returns whether all of it is there.
    pub(super) fn send(&mut self, digest: &ToolDigest, path: &Path) -> io::Result<bool> {
        if self.whole.contains_key(digest) {
            return Ok(true);
        }
        let file = File::open(path)?;
        let (bytes, part_bytes) = (file.metadata()?.len(), self.mirror.part_bytes());
        let parts = bytes.div_ceil(part_bytes);
        let begin = self.sent.get(digest).copied().unwrap_or_default();
        let end = parts.min(begin + (STEP_BYTES / part_bytes).max(1));
        for number in begin..end {
            let offset = number * part_bytes;
            let mut part = vec![0; usize::try_from(part_bytes.min(bytes - offset)).unwrap_or_default()];
            file.read_exact_at(&mut part, offset)?;
            self.mirror.put_part(digest, number, &part)?;
            self.sent.insert(*digest, number + 1);
        }
        if end < parts {
            return Ok(false);
        }
        self.sent.remove(digest);
        if !self.mirror.put_file(digest, bytes)? {
            return Err(io::Error::other("some of its parts have vanished; they are sent again"));
        }
        self.whole.insert(*digest, bytes);
        Ok(true)
    }

    /// Fetches a step of a file to the end of another one. Returns whether all of it is there, with its own bytes; `None` if the
    /// mirror does not have it.
    pub(super) fn fetch(&mut self, digest: &ToolDigest, to: &Path) -> io::Result<Option<bool>> {
        let Some(&bytes) = self.whole.get(digest) else { return Ok(None) };
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(to)?;
        let part_bytes = self.mirror.part_bytes();
        let mut there = file.metadata()?.len();
        let until = bytes.min(there + STEP_BYTES);
        while there < until {
            let part = self.mirror.part(digest, there / part_bytes)?;
            let Some(part) = part.filter(|part| !part.is_empty() && there.is_multiple_of(part_bytes)) else {
                return self.give_up(digest, to);
            };
            file.write_all(&part).inspect_err(|_| drop(fs::remove_file(to)))?;
            there += part.len() as u64;
        }
        if there == bytes && digest_of(&File::open(to)?)? != *digest {
            return self.give_up(digest, to);
        }
        Ok(Some(there == bytes))
    }

    /// A file has other bytes there than its digest says.
    fn give_up(&mut self, digest: &ToolDigest, fetched: &Path) -> io::Result<Option<bool>> {
        ::log::error!("the file {} in the store of the queue has other bytes than its digest says", digest.short());
        self.whole.remove(digest);
        fs::remove_file(fetched)?;
        Ok(None)
    }

    pub(super) fn remove(&mut self, digest: &ToolDigest) -> io::Result<()> {
        self.sent.remove(digest);
        if self.whole.contains_key(digest) {
            self.mirror.remove(digest)?;
            self.whole.remove(digest);
        }
        Ok(())
    }

    pub(super) fn log(&mut self) -> io::Result<Vec<String>> {
        self.mirror.log()
    }

    pub(super) fn add_to_log(&mut self, line: &str) -> io::Result<()> {
        self.mirror.add_to_log(line)
    }
}

#[cfg(test)]
mod tests;
