//! The files of earlier versions, which are only read: blocks of rows, each with a header and compressed for itself.
//!
//! ```text
//! magic (4)  format (1)  kind (1)  zero (2)  rows (4)  bytes (4)  bytes before compression (4)
//! first moment (8)  last moment (8)  CRC-32 of the bytes (4)  CRC-32 of the header (4)    bytes
//! ```
//!
//! Numbers of a header are little-endian. The bytes of a block of rounds begin with its texts, to which the rows refer by numbers;
//! the times of a row are differences to those of the row before.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Read, Seek};
use std::path::Path;
use std::time::Duration;

use zeekstd::{DecodeOptions, SeekTable};

use super::tables::FileError;
use crate::history::rules::Batch;
use base::{FinishedRound, Incident, IncidentKind, Round, RoundOutcome, TaskId, Wall};

const MAGIC: [u8; 4] = *b"\x89LLH";
const HEADER_BYTES: usize = 44;

/// A longer file was not written by a controller, or has more rounds than it could run in a day.
const FILE_BYTES_MAX: u64 = 4 << 30;

/// Bytes of a block before its compression that are believed.
const RAW_BYTES_MAX: u32 = 64 << 20;

/// Bits of the first byte of a row, besides the number of the outcome.
const IS_LAST: u8 = 0x10;
const HAS_EXIT_CODE: u8 = 0x20;
const HAS_STARTED: u8 = 0x40;
const HAS_RUN: u8 = 0x80;
const OUTCOME: u8 = 0x0f;

struct Header {
    /// Blocks of format 1 have no machines.
    format: u8,
    is_of_rounds: bool,
    rows: u32,
    len: usize,
    raw_len: u32,
    checksum: u32,
}

/// Calls `each` with the rows of each block. Returns whether a part of the file is damaged; a block at its end that was not written
/// completely is not.
pub(super) fn read(path: &Path, mut each: impl FnMut(Batch) -> Result<(), FileError>) -> Result<bool, FileError> {
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?,
    };
    if !found.is_file() || found.len() > FILE_BYTES_MAX {
        return Ok(true);
    }
    let file = fs::read(path)?;
    let mut is_damaged = false;
    let mut rest = file.as_slice();
    while !rest.is_empty() {
        let header = Header::at(rest);
        let block = header.as_ref().and_then(|header| rest.get(HEADER_BYTES..HEADER_BYTES + header.len));
        if let (Some(header), Some(block)) = (&header, block) {
            match header.batch(block) {
                Some(batch) => each(batch)?,
                // The rows of a damaged block were added again behind it.
                None => is_damaged |= header.rows > 0,
            }
            rest = &rest[HEADER_BYTES + header.len..];
            continue;
        }
        let mut places = (1..rest.len()).filter(|at| rest[*at..].starts_with(&MAGIC));
        let next = places.find(|at| Header::at(&rest[*at..]).is_some());
        let is_torn = next.is_none() && (header.is_some() || rest.len() < HEADER_BYTES);
        is_damaged |= !is_torn;
        rest = &rest[next.unwrap_or(rest.len())..];
    }
    Ok(is_damaged)
}

impl Header {
    fn at(bytes: &[u8]) -> Option<Self> {
        let (header, checksum) = bytes.get(..HEADER_BYTES)?.split_at(HEADER_BYTES - 4);
        if header[..4] != MAGIC || checksum != crc32fast::hash(header).to_le_bytes() {
            return None;
        }
        let number = |at: usize| Some(u32::from_le_bytes(*header.get(at..)?.first_chunk()?));
        let (rows, len, raw_len, checksum) = (number(8)?, number(12)? as usize, number(16)?, number(36)?);
        let is_known = matches!((header[4], header[5]), (1 | 2, 1 | 2)) && raw_len <= RAW_BYTES_MAX;
        is_known.then_some(Self { format: header[4], is_of_rounds: header[5] == 1, rows, len, raw_len, checksum })
    }

    /// The rows of the block; `None` if they are damaged.
    fn batch(&self, block: &[u8]) -> Option<Batch> {
        let raw = (crc32fast::hash(block) == self.checksum).then(|| decompressed(block, self.raw_len))??;
        let mut batch = Batch::default();
        if self.is_of_rounds {
            batch.rounds = rounds(&raw, self.format)?;
        } else {
            batch.incidents = incidents(&raw)?;
        }
        (batch.rounds.len() + batch.incidents.len() == self.rows as usize).then_some(batch)
    }
}

fn decompressed(block: &[u8], raw_len: u32) -> Option<Vec<u8>> {
    let mut table = SeekTable::new();
    table.log_frame(u32::try_from(block.len()).ok()?, raw_len).ok()?;
    let mut decoder = DecodeOptions::new(Source(io::Cursor::new(block))).seek_table(table).into_decoder().ok()?;
    let mut raw = vec![0; raw_len as usize];
    let mut done = 0;
    while done < raw.len() {
        let len = decoder.decompress(&mut raw[done..]).ok().filter(|len| *len > 0)?;
        done += len;
    }
    Some(raw)
}

/// The bytes of a block. Their end is an error, because the decoder asks for more of them without end.
struct Source<'a>(io::Cursor<&'a [u8]>);

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            len => Ok(len),
        }
    }
}

impl Seek for Source<'_> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

fn rounds(mut bytes: &[u8], format: u8) -> Option<Vec<FinishedRound<'static>>> {
    let count = take(&mut bytes)?;
    let mut texts = vec![""];
    for _ in 0..count {
        texts.push(take_text(&mut bytes)?);
    }
    let (mut rounds, mut last_id, mut last_end) = (Vec::new(), 0, 0);
    while let Some(flags) = take_byte(&mut bytes) {
        let id = take_difference(&mut bytes, last_id)?;
        let (letters, rest) = bytes.split_first_chunk()?;
        bytes = rest;
        let round = Round(u32::try_from(take(&mut bytes)?).ok()?);
        let end = take_difference(&mut bytes, last_end)?;
        let mut numbers = [0; 7];
        for number in numbers.iter_mut().take(if format == 1 { 6 } else { 7 }) {
            *number = usize::try_from(take(&mut bytes)?).ok()?;
        }
        let [tool, command, job, given_id, agent, line, host] =
            numbers.map(|number| Cow::Owned(texts.get(number).copied().unwrap_or_default().to_owned()));
        let submitted_at = Wall::from_micros(take_difference(&mut bytes, id)?);
        let waited = Duration::from_micros(take(&mut bytes)?);
        let started_at = if flags & HAS_STARTED == 0 { None } else { Some(take_difference(&mut bytes, end)?) };
        let ran = if flags & HAS_RUN == 0 { None } else { Some(take(&mut bytes)?) };
        let exit_code = if flags & HAS_EXIT_CODE == 0 { None } else { Some(take_difference(&mut bytes, 0)?) };
        (last_id, last_end) = (id, end);
        rounds.push(FinishedRound {
            task: TaskId::from_parts(Wall::from_micros(id), *letters)?,
            round,
            is_last: flags & IS_LAST != 0,
            outcome: *RoundOutcome::ALL.get(usize::from(flags & OUTCOME))?,
            exit_code: exit_code.map(|code| i32::try_from(code.cast_signed())).transpose().ok()?,
            tool,
            command,
            job,
            given_id,
            agent,
            host,
            submitted_at,
            waited,
            started_at: started_at.map(Wall::from_micros),
            ran: ran.map(Duration::from_micros),
            ended_at: Wall::from_micros(end),
            line,
        });
    }
    Some(rounds)
}

fn incidents(mut bytes: &[u8]) -> Option<Vec<Incident>> {
    let mut incidents = Vec::new();
    while let Some(kind) = take_byte(&mut bytes) {
        let kind = *IncidentKind::ALL.get(usize::from(kind))?;
        let at = Wall::from_micros(take(&mut bytes)?);
        incidents.push(Incident { at, kind, text: take_text(&mut bytes)?.to_owned() });
    }
    Some(incidents)
}

fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (&byte, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(byte)
}

fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let len = usize::try_from(take(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    str::from_utf8(text).ok()
}

/// A number of one to ten bytes, the lower seven bits first.
fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = take_byte(bytes)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// A number that was put as the difference to another one.
fn take_difference(bytes: &mut &[u8], base: u64) -> Option<u64> {
    let found = take(bytes)?;
    Some(base.wrapping_add((found >> 1) ^ (found & 1).wrapping_neg()))
}

#[cfg(test)]
mod tests;
