//! The members of a zip, which may be hostile. Names, kinds and sizes are checked as in a tar.
//!
//! The zip reader keeps the whole directory in memory, and of two entries with the same name it only keeps the last one. So the
//! entries are counted before it reads any, and it must find as many.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt as _;

use rustix::fs::FileType;
use zip::ZipArchive;
use zip::read::ZipFile;

use super::error::shown;
use super::input::{Budget, CHUNK_BYTES, Packed, Watch};
use super::members::{Content, Kind, Member};
use super::path::InnerPath;
use super::{ArchiveError, Limits};

/// The mark in front of each entry of the directory.
const ENTRY: [u8; 4] = *b"PK\x01\x02";

/// The mark in front of the record at the end. The record has 22 bytes and a comment.
const END: [u8; 4] = *b"PK\x05\x06";
const END_BYTES: usize = 22;
const COMMENT_BYTES_MAX: usize = u16::MAX as usize;

/// The count in a zip that keeps the real one in its 64-bit fields.
const COUNTED_ELSEWHERE: u16 = u16::MAX;

/// The mode of an entry without one, as archivers of other systems write it.
const USUAL_MODE: u32 = 0o644;

/// Hands each member and its content to `take`.
pub(super) fn each_member(
    archive: &File,
    limits: &Limits,
    watch: Watch<'_>,
    mut take: impl FnMut(&Member, &mut dyn Content) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let packed = Packed::new(archive, limits, watch)?;
    let entries = count(archive, limits, watch)?;
    let mut budget = Budget::of(&packed, limits);
    let mut zip = ZipArchive::new(BufReader::with_capacity(CHUNK_BYTES, packed)).map_err(damaged)?;
    if zip.len() != entries {
        return Err(ArchiveError::Duplicate { path: format!("one of its {entries} entries") });
    }
    for index in 0..entries {
        watch.check()?;
        let entry = zip.by_index(index).map_err(damaged)?;
        let mut entry = Entry { entry, budget: &mut budget, watch };
        let member = entry.member(limits)?;
        take(&member, &mut entry)?;
    }
    Ok(())
}

/// The number of entries, from the record at the end. Before that, the marks of entries in the file are counted: the directory
/// cannot have more entries than that, whatever the record says.
fn count(archive: &File, limits: &Limits, watch: Watch<'_>) -> Result<usize, ArchiveError> {
    let too_many = || ArchiveError::Entries { limit: limits.entries };
    let mut packed = Packed::new(archive, limits, watch)?;
    // The last three bytes of a chunk stay in front of the next one, for a mark that spans both.
    let (mut chunk, mut kept, mut marks) = (vec![0; CHUNK_BYTES + ENTRY.len()], 0, 0);
    loop {
        let read = packed.read(&mut chunk[kept..kept + CHUNK_BYTES])?;
        if read == 0 {
            break;
        }
        let filled = kept + read;
        marks += chunk[..filled].windows(ENTRY.len()).filter(|window| **window == ENTRY).count() as u64;
        if marks > limits.entries {
            return Err(too_many());
        }
        kept = filled.min(ENTRY.len() - 1);
        chunk.copy_within(filled - kept..filled, 0);
    }
    let size = archive.metadata().map_err(|source| ArchiveError::Read { source })?.len();
    let mut tail = vec![0; END_BYTES + COMMENT_BYTES_MAX];
    let start = size.saturating_sub(tail.len() as u64);
    tail.truncate(usize::try_from(size - start).unwrap_or_default());
    archive.read_exact_at(&mut tail, start).map_err(|source| ArchiveError::Read { source })?;
    let end = tail.windows(END_BYTES).rev().find(|window| window.starts_with(&END));
    let count = end.and_then(|end| Some(u16::from_le_bytes(end.get(10..12)?.try_into().ok()?)));
    match count {
        None => Err(ArchiveError::damaged("zip", io::Error::other("it has no directory at its end"))),
        Some(COUNTED_ELSEWHERE) => Err(too_many()),
        Some(count) => Ok(usize::from(count)),
    }
}

/// One entry. Its content is counted while it is read.
struct Entry<'a, 'b, R: Read> {
    entry: ZipFile<'a, R>,
    budget: &'a mut Budget<'b>,
    watch: Watch<'a>,
}

impl<R: Read> Entry<'_, '_, R> {
    fn member(&mut self, limits: &Limits) -> Result<Member, ArchiveError> {
        let raw = self.entry.name_raw().to_vec();
        let path = InnerPath::new(&raw, limits)?;
        let mode = self.entry.unix_mode().unwrap_or(USUAL_MODE);
        let bytes = self.entry.size();
        let kind = match FileType::from_raw_mode(mode) {
            _ if raw.ends_with(b"/") => Kind::Folder,
            FileType::Directory => Kind::Folder,
            FileType::Symlink => Kind::Symlink { target: self.target(&raw, bytes, limits)? },
            // An archiver that stores only the permissions leaves the kind out.
            FileType::RegularFile => Kind::File { bytes },
            FileType::Unknown if mode & libc::S_IFMT == 0 => Kind::File { bytes },
            FileType::Fifo => return Err(ArchiveError::Kind { path: shown(&raw), kind: "a FIFO" }),
            FileType::Socket => return Err(ArchiveError::Kind { path: shown(&raw), kind: "a socket" }),
            FileType::CharacterDevice | FileType::BlockDevice => {
                return Err(ArchiveError::Kind { path: shown(&raw), kind: "a device" });
            }
            FileType::Unknown => return Err(ArchiveError::Kind { path: shown(&raw), kind: "of an unknown kind" }),
        };
        if path.is_root() && kind != Kind::Folder {
            return Err(ArchiveError::path(&raw, "names no file"));
        }
        if bytes > self.budget.left() {
            return Err(ArchiveError::UnpackedBytes { limit: limits.unpacked_bytes });
        }
        Ok(Member { path, kind, mode: mode & 0o755 })
    }

    /// The target of a symbolic link, which is its content.
    fn target(&mut self, path: &[u8], bytes: u64, limits: &Limits) -> Result<Vec<u8>, ArchiveError> {
        if bytes > limits.path_bytes {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            return Err(ArchiveError::PathBytes { path: shown(path), bytes, limit: limits.path_bytes });
        }
        let mut target = Vec::new();
        self.content(bytes, &mut |chunk| {
            target.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(target)
    }
}

impl<R: Read> Content for Entry<'_, '_, R> {
    fn content(
        &mut self,
        bytes: u64,
        take: &mut dyn FnMut(&[u8]) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        let (mut chunk, mut left) = (vec![0; CHUNK_BYTES], bytes);
        loop {
            self.watch.check()?;
            // Reads to the end of the entry, because the reader compares the checksum there.
            let read = self.entry.read(&mut chunk).map_err(|error| damaged(error.into()))?;
            if read == 0 {
                return if left == 0 { Ok(()) } else { Err(ArchiveError::Truncated) };
            }
            self.budget.spend(read)?;
            left = left.checked_sub(read as u64).ok_or(ArchiveError::Trailing)?;
            take(&chunk[..read])?;
        }
    }
}

fn damaged(error: zip::result::ZipError) -> ArchiveError {
    match error {
        // An error of our own reader comes back wrapped.
        zip::result::ZipError::Io(error) => match ArchiveError::from(error) {
            ArchiveError::Gzip { source } => ArchiveError::damaged("zip", source),
            other => other,
        },
        other => ArchiveError::damaged("zip", io::Error::other(other)),
    }
}
