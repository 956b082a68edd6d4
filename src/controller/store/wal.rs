//! SQLite's write-ahead log, read as bytes: does it end where SQLite stops reading it, or later?
//!
//! SQLite reads its log up to the first frame with a wrong checksum and treats that as the end. After a power failure it is
//! the end: the last commit was never acknowledged. After a flipped bit it is not, and every later commit would be lost
//! silently (docs/design/hazards.md, D3). The two differ in the frames that follow: checksums are cumulative, so a frame that continues
//! the checksum of a commit was written after that commit was complete, and a commit begins only when the previous one is
//! on the disk.
//!
//! The format is that of <https://sqlite.org/fileformat2.html#walformat>: a header of 32 bytes, then frames of 24 bytes and
//! a page. A log that starts over overwrites the frames of the previous one; remaining old frames have other salts.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

const HEADER_BYTES: u64 = 32;
const FRAME_HEADER_BYTES: u64 = 24;
/// Its last bit selects the byte order of the checksum.
const MAGIC: u32 = 0x377f_0682;
const PAGE_BYTES: RangeInclusive<u32> = 512..=65536;
/// SQLite's default page size, which the store never changes.
const USUAL_PAGE_BYTES: usize = 4096;

/// The end of the last commit that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// The salts of the log to which this end belongs.
    pub(super) salts: Salts,
    /// Number of frames up to that end.
    pub(super) frames: u64,
}

/// The end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogEnd {
    /// After a complete commit, or there is no log.
    Whole,
    /// Within its last commit, at this offset in bytes.
    Torn(u64),
    /// The bytes at this offset differ from what was written, and commits follow them.
    Damaged(u64),
}

/// The kind of a log file.
#[derive(Debug)]
pub(super) enum Opened {
    /// It contains no frame, or does not exist.
    Empty,
    /// It contains frames that do not match its header. None of them can be proved sound.
    BadHeader(Box<Log>),
    /// It is readable.
    Log(Box<Log>),
}

/// A log that is being read.
#[derive(Debug)]
pub(super) struct Log {
    file: BufReader<File>,
    /// Bytes of a page.
    pub(super) page_bytes: usize,
    is_big_endian: bool,
    salts: Salts,
    /// Offset of the next frame in the file.
    offset: u64,
    /// The checksum of everything up to here; `None` after a frame that is not sound.
    chain: Option<Sum>,
}

/// One written page.
#[derive(Debug)]
pub(super) struct Frame {
    /// Offset in the log.
    pub(super) offset: u64,
    /// Page number, from 1.
    pub(super) page: u32,
    /// Pages of the file after the commit that ends with this frame; 0 within a commit.
    pub(super) commit: u32,
    /// Whether this and everything before it is intact.
    pub(super) is_sound: bool,
    /// Whether it belongs to this log, and not to an earlier one that this one has overwritten.
    pub(super) is_present: bool,
    /// Contents of the page.
    pub(super) data: Vec<u8>,
    /// The part of the frame's header that the checksum covers.
    head: [u8; 8],
    stored: Sum,
    /// The expected checksum; `None` after a frame that is not sound.
    computed: Option<Sum>,
}

type Sum = (u32, u32);

/// The numbers that tell the frames of a log from those of an earlier one.
pub(super) type Salts = [u8; 8];

/// The end of the log at `path`, in which the noted commits must be sound.
///
/// # Errors
/// When it cannot be read.
pub(super) fn end_of(path: &Path, told: Option<Told>) -> io::Result<LogEnd> {
    let mut log = match Log::open(path)? {
        // The log has nothing, or zeros, where commits were.
        Opened::Empty if told.is_some() && path.metadata().is_ok_and(|log| log.len() > 0) => {
            return Ok(LogEnd::Damaged(0));
        }
        Opened::Empty => return Ok(LogEnd::Whole),
        Opened::BadHeader(_) => return Ok(LogEnd::Damaged(0)),
        Opened::Log(log) => log,
    };
    let told = told.filter(|told| told.salts == log.salts).map_or(0, |told| told.frames);
    let mut is_in_commit = false;
    for number in 0.. {
        let Some(frame) = log.next()? else { break };
        if !frame.is_sound && number < told {
            return Ok(LogEnd::Damaged(frame.offset));
        }
        if !frame.is_sound {
            let is_of_this_log = frame.is_present || frame.computed == Some(frame.stored);
            let end = if is_of_this_log || is_in_commit { LogEnd::Torn(frame.offset) } else { LogEnd::Whole };
            return Ok(log.damage_from(&frame)?.map_or(end, LogEnd::Damaged));
        }
        is_in_commit = frame.commit == 0;
    }
    Ok(if is_in_commit { LogEnd::Torn(log.offset) } else { LogEnd::Whole })
}

impl Log {
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn open(path: &Path) -> io::Result<Opened> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Opened::Empty),
            file => file?,
        };
        if file.metadata()?.len() <= HEADER_BYTES + FRAME_HEADER_BYTES {
            return Ok(Opened::Empty);
        }
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut header = [0; HEADER_BYTES as usize];
        file.read_exact(&mut header)?;
        let [magic, _version, page_bytes] = [0, 4, 8].map(|at| word(&header, at));
        let is_big_endian = magic == MAGIC | 1;
        let sum = summed((0, 0), &header[..24], is_big_endian);
        let is_size = PAGE_BYTES.contains(&page_bytes) && page_bytes.is_power_of_two();
        let is_right = magic & !1 == MAGIC && is_size && sum == (word(&header, 24), word(&header, 28));
        let mut log = Self {
            page_bytes: if is_size { page_bytes as usize } else { USUAL_PAGE_BYTES },
            is_big_endian,
            salts: salts_in(&header[16..]),
            offset: HEADER_BYTES,
            chain: is_right.then_some(sum),
            file,
        };
        if is_right {
            return Ok(Opened::Log(Box::new(log)));
        }
        let first = log.file.fill_buf()?;
        // After a power failure, a file that was extended but never written contains zeros.
        if header.iter().chain(first).all(|byte| *byte == 0) {
            return Ok(Opened::Empty);
        }
        if let Some(salts) = first.get(8..16) {
            log.salts = salts_in(salts);
        }
        Ok(Opened::BadHeader(Box::new(log)))
    }

    /// The next frame; `None` after the last complete one.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn next(&mut self) -> io::Result<Option<Frame>> {
        let mut header = [0; FRAME_HEADER_BYTES as usize];
        let mut data = vec![0; self.page_bytes];
        let read = self.file.read_exact(&mut header).and_then(|()| self.file.read_exact(&mut data));
        match read {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let mut head = [0; 8];
        head.copy_from_slice(&header[..8]);
        let mut frame = Frame {
            offset: self.offset,
            page: word(&header, 0),
            commit: word(&header, 4),
            is_sound: false,
            is_present: header[8..16] == self.salts,
            data,
            head,
            stored: (word(&header, 16), word(&header, 20)),
            computed: None,
        };
        frame.computed = self.chain.map(|chain| self.sum(chain, &frame));
        frame.is_sound = frame.is_present && frame.computed == Some(frame.stored);
        self.chain = frame.computed.filter(|_| frame.is_sound);
        self.offset += FRAME_HEADER_BYTES + self.page_bytes as u64;
        Ok(Some(frame))
    }

    /// Whether a commit follows the one that contains the frame `bad`; returns the offset of that frame.
    fn damage_from(&mut self, bad: &Frame) -> io::Result<Option<u64>> {
        let offset = bad.offset;
        // The checksum in the bad frame may be its only defect; then the next frame continues the right one.
        let mut ends = [Some(bad.stored), bad.computed];
        let mut is_end_of_commit = bad.commit != 0;
        while let Some(frame) = self.next()? {
            let continues = |end: Option<Sum>| end.is_some_and(|end| self.sum(end, &frame) == frame.stored);
            if is_end_of_commit && frame.is_present && ends.into_iter().any(continues) {
                return Ok(Some(offset));
            }
            ends = [Some(frame.stored), None];
            is_end_of_commit = frame.commit != 0;
        }
        Ok(None)
    }

    /// The checksum of a frame that follows one with the checksum `before`.
    fn sum(&self, before: Sum, frame: &Frame) -> Sum {
        summed(summed(before, &frame.head, self.is_big_endian), &frame.data, self.is_big_endian)
    }
}

/// The salts of a log.
///
/// # Errors
/// When its header cannot be read.
pub(super) fn salts_of(path: &Path) -> io::Result<Salts> {
    let mut salts = Salts::default();
    File::open(path)?.read_exact_at(&mut salts, 16)?;
    Ok(salts)
}

fn salts_in(bytes: &[u8]) -> Salts {
    let mut salts = [0; 8];
    salts.copy_from_slice(&bytes[..8]);
    salts
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

/// The length of `bytes` is a multiple of eight, as for headers and pages.
fn summed((mut first, mut second): Sum, bytes: &[u8], is_big_endian: bool) -> Sum {
    let word = |bytes: &[u8]| {
        let word = word(bytes, 0);
        if is_big_endian { word } else { word.swap_bytes() }
    };
    for pair in bytes.chunks_exact(8) {
        first = first.wrapping_add(word(&pair[..4])).wrapping_add(second);
        second = second.wrapping_add(word(&pair[4..])).wrapping_add(first);
    }
    (first, second)
}

#[cfg(test)]
mod tests;
