//! The file of a day: blocks, each with a header and compressed for itself, one after the other.
//!
//! ```text
//! magic (4)  version (1)  kind (1)  zero (2)  rows (4)  bytes (4)  bytes before compression (4)
//! first moment (8)  last moment (8)  CRC-32 of the bytes (4)  CRC-32 of the header (4)    bytes
//! ```
//!
//! Numbers are little-endian; moments are microseconds since 1970. A reader that asks for some hours skips the other blocks by their
//! headers. The version is the format of the rows. After a damaged header, the next one is found by its magic; so a wrong byte costs one block.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::engine::history::{Write, WriteKind};
use crate::protocol::rounds::block::{FORMAT, Span};
use crate::types::Wall;

const MAGIC: [u8; 4] = *b"\x89LLH";
const HEADER_BYTES: usize = 44;

/// Bytes of a block before its compression that are believed: the writer ends blocks long before.
const RAW_BYTES_MAX: u32 = 64 << 20;

/// Bytes that are searched for a header at once.
const SEARCHED_BYTES: usize = 64 << 10;

/// The fastest ratio of zstd that is worth its time.
const LEVEL: i32 = 1;

/// The header of a block, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Bytes before the header.
    pub(super) at: u64,
    /// The format of its rows.
    pub(super) format: u8,
    pub(super) kind: WriteKind,
    pub(super) count: u32,
    pub(super) span: Span,
    len: u32,
    raw_len: u32,
    checksum: u32,
}

/// A piece of a file that is not readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damage {
    pub(super) at: u64,
    /// Its header, if that is readable.
    pub(super) header: Option<Frame>,
    /// Whether it is the beginning of a block that was not written completely, at the end of the file.
    pub(super) is_torn: bool,
}

/// The bytes of a block with its header.
pub(super) fn encode(write: &Write) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(zstd_safe::compress_bound(write.bytes.len()));
    zstd_safe::compress(&mut bytes, &write.bytes, LEVEL).map_err(zstd)?;
    let too_long = |_| io::Error::new(io::ErrorKind::FileTooLarge, "a block of the history is too long");
    let frame = Frame {
        at: 0,
        format: FORMAT,
        kind: write.kind,
        count: write.count,
        span: write.span,
        len: u32::try_from(bytes.len()).map_err(too_long)?,
        raw_len: u32::try_from(write.bytes.len()).map_err(too_long)?,
        checksum: crc32fast::hash(&bytes),
    };
    let mut out = frame.header_with(write.count).to_vec();
    out.extend_from_slice(&bytes);
    Ok(out)
}

fn zstd(code: zstd_safe::ErrorCode) -> io::Error {
    io::Error::other(zstd_safe::get_error_name(code))
}

const fn kind_byte(kind: WriteKind) -> u8 {
    match kind {
        WriteKind::Rounds => 1,
        WriteKind::Incidents => 2,
    }
}

impl Frame {
    fn read(at: u64, header: &[u8; HEADER_BYTES]) -> Option<Self> {
        let (body, checksum) = header.split_at(HEADER_BYTES - 4);
        if body[..4] != MAGIC || !(1..=FORMAT).contains(&body[4]) || checksum != crc32fast::hash(body).to_le_bytes() {
            return None;
        }
        let kind = [WriteKind::Rounds, WriteKind::Incidents].into_iter().find(|kind| kind_byte(*kind) == body[5])?;
        let number = |at: usize| Some(u32::from_le_bytes(*body.get(at..)?.first_chunk()?));
        let moment = |at: usize| Some(Wall::from_micros(u64::from_le_bytes(*body.get(at..)?.first_chunk()?)));
        let span = Span { first: moment(20)?, last: moment(28)? };
        let (count, len, raw_len) = (number(8)?, number(12)?, number(16)?);
        let checksum = number(36)?;
        (raw_len <= RAW_BYTES_MAX).then_some(Self { at, format: body[4], kind, count, span, len, raw_len, checksum })
    }

    /// Its header, with another number of rows.
    pub(super) fn header_with(&self, count: u32) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(4, &[self.format, kind_byte(self.kind)]);
        for (at, number) in [(8, count), (12, self.len), (16, self.raw_len), (36, self.checksum)] {
            put(at, &number.to_le_bytes());
        }
        for (at, moment) in [(20, self.span.first), (28, self.span.last)] {
            put(at, &moment.micros().to_le_bytes());
        }
        let checksum = crc32fast::hash(&header[..HEADER_BYTES - 4]);
        header[HEADER_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
        header
    }

    /// The end of the block.
    pub(super) fn end(&self) -> u64 {
        self.at + HEADER_BYTES as u64 + u64::from(self.len)
    }

    /// The bytes of the block before their compression; `None` if they are damaged.
    pub(super) fn bytes(&self, file: &File) -> io::Result<Option<Vec<u8>>> {
        let mut compressed = vec![0; self.len as usize];
        file.read_exact_at(&mut compressed, self.at + HEADER_BYTES as u64)?;
        if crc32fast::hash(&compressed) != self.checksum {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(self.raw_len as usize);
        let is_whole = zstd_safe::decompress(&mut bytes, &compressed).is_ok_and(|len| len == self.raw_len as usize);
        Ok(is_whole.then_some(bytes))
    }

    /// The damage of its bytes.
    pub(super) const fn damage(&self) -> Damage {
        Damage { at: self.at, header: Some(*self), is_torn: false }
    }
}

/// The header at this place of a file.
pub(super) fn frame_at(file: &File, at: u64) -> io::Result<Option<Frame>> {
    let mut header = [0; HEADER_BYTES];
    match file.read_exact_at(&mut header, at) {
        Ok(()) => Ok(Frame::read(at, &header)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Calls `each` for the headers of a file in order, and for what is damaged between them.
pub(super) fn frames(file: &File, mut each: impl FnMut(Result<Frame, Damage>) -> io::Result<()>) -> io::Result<()> {
    let len = file.metadata()?.len();
    let mut at = 0;
    while at < len {
        match frame_at(file, at)? {
            Some(frame) if frame.end() <= len => {
                at = frame.end();
                each(Ok(frame))?;
                continue;
            }
            Some(frame) => {
                let next = search(file, at + 1)?;
                each(Err(Damage { at, header: Some(frame), is_torn: next.is_none() }))?;
                at = next.unwrap_or(len);
            }
            None => {
                let next = search(file, at + 1)?;
                let is_torn = next.is_none() && len - at < HEADER_BYTES as u64;
                each(Err(Damage { at, header: None, is_torn }))?;
                at = next.unwrap_or(len);
            }
        }
    }
    Ok(())
}

/// The place of the next header, from this place on.
fn search(file: &File, mut at: u64) -> io::Result<Option<u64>> {
    let mut buffer = vec![0; SEARCHED_BYTES];
    loop {
        let len = file.read_at(&mut buffer, at)?;
        if len < HEADER_BYTES {
            return Ok(None);
        }
        let found = buffer[..len].windows(MAGIC.len()).enumerate().filter(|(_, bytes)| *bytes == MAGIC);
        for (offset, _) in found {
            let place = at + offset as u64;
            if frame_at(file, place)?.is_some() {
                return Ok(Some(place));
            }
        }
        // A magic may lie across the end of the buffer.
        at += (len - MAGIC.len() + 1) as u64;
    }
}

#[cfg(test)]
mod tests;
