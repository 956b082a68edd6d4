//! Reads the bytes on disk and returns the bytes of the tar, within all limits of size and time.
//!
//! Two readers enforce the limits. [`Packed`] below the decompressor also stops an archive that makes the decompressor spin
//! without output. [`Meter`] above it counts the actual output, not the size that a header claims.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;

use super::{ArchiveError, Limits, Packing};
use base::Mono;
use proc::clock;

/// Bytes that are read, unpacked and written at once. The flag and the clock are checked once for each such chunk.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;

/// The caller's flag and the deadline.
#[derive(Clone, Copy)]
pub(in crate::tools) struct Watch<'a> {
    stop: &'a AtomicBool,
    deadline: Mono,
    timeout: Duration,
}

impl<'a> Watch<'a> {
    pub(in crate::tools) fn start(timeout: Duration, stop: &'a AtomicBool) -> Self {
        Self { stop, deadline: clock::now().mono + timeout, timeout }
    }

    pub(super) fn check(&self) -> Result<(), ArchiveError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ArchiveError::Stopped);
        }
        if clock::now().mono > self.deadline {
            return Err(ArchiveError::TimedOut { limit: self.timeout });
        }
        Ok(())
    }
}

/// The bytes of the file, up to the size that it had when it was opened. Reading does not move the cursor of the file.
pub(in crate::tools) struct Packed<'a> {
    file: &'a File,
    size: u64,
    at: u64,
    hasher: DefaultHasher,
    watch: Watch<'a>,
}

impl<'a> Packed<'a> {
    pub(in crate::tools) fn new(file: &'a File, limits: &Limits, watch: Watch<'a>) -> Result<Self, ArchiveError> {
        let metadata = file.metadata().map_err(|source| ArchiveError::Read { source })?;
        if !metadata.is_file() {
            return Err(ArchiveError::NotFile);
        }
        let size = metadata.size();
        if size > limits.packed_bytes {
            return Err(ArchiveError::PackedBytes { bytes: size, limit: limits.packed_bytes });
        }
        Ok(Self { file, size, at: 0, hasher: DefaultHasher::new(), watch })
    }

    /// The hash of the bytes read up to now. Different bytes have the same hash with a probability of 2^-64. Hashes are only
    /// comparable between readers with the same chunk size, in programs built with the same standard library.
    pub(in crate::tools) fn digest(&self) -> u64 {
        self.hasher.finish()
    }

    /// Reads all bytes and returns the digest that unpacking would return.
    pub(in crate::tools) fn digest_all(mut self) -> Result<u64, ArchiveError> {
        let mut chunk = vec![0; CHUNK_BYTES];
        while self.read(&mut chunk)? > 0 {}
        Ok(self.digest())
    }
}

impl Read for Packed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.watch.check()?;
        let left = usize::try_from(self.size - self.at).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let mut filled = 0;
        // Fills the buffer as far as possible, so that the hasher gets the same pieces each time.
        while filled < wanted {
            match self.file.read_at(&mut buffer[filled..wanted], self.at + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(ArchiveError::Read { source }.into()),
            }
        }
        self.hasher.write(&buffer[..filled]);
        self.at += filled as u64;
        Ok(filled)
    }
}

/// Seeking moves only our own position. The digest covers the bytes in the order in which they are read.
impl Seek for Packed<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(from) => self.size.checked_add_signed(from),
            SeekFrom::Current(from) => self.at.checked_add_signed(from),
        };
        self.at = at.filter(|at| *at <= self.size).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

type Buffered<'a> = BufReader<Packed<'a>>;

/// The bytes of a tar. Several gzip members form one stream, as in RFC 1952 and `gzip -d`, and so do several bzip2 members. The
/// decoder refuses other data behind the last member.
enum Decoder<'a> {
    Plain(Buffered<'a>),
    // Boxed, because its state is by far the largest.
    Gzip(Box<MultiGzDecoder<Buffered<'a>>>),
    Bzip2(MultiBzDecoder<Buffered<'a>>),
}

impl Read for Decoder<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(reader) => reader.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Bzip2(decoder) => decoder.read(buffer).map_err(|error| match error.kind() {
                io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                    ArchiveError::damaged("bzip2", error).into()
                }
                _ => error,
            }),
        }
    }
}

/// The bytes that an archive has unpacked to, checked against the limits.
pub(super) struct Budget<'a> {
    limits: &'a Limits,
    packed: u64,
    unpacked: u64,
}

impl<'a> Budget<'a> {
    pub(super) const fn of(packed: &Packed<'_>, limits: &'a Limits) -> Self {
        Self { limits, packed: packed.size, unpacked: 0 }
    }

    pub(super) fn spend(&mut self, bytes: usize) -> Result<(), ArchiveError> {
        let (limits, packed) = (self.limits, self.packed);
        self.unpacked = self.unpacked.saturating_add(bytes as u64);
        if self.unpacked > limits.unpacked_bytes {
            return Err(ArchiveError::UnpackedBytes { limit: limits.unpacked_bytes });
        }
        // Compared with the whole packed size, because a harmless archive may begin with data that compresses well.
        if self.unpacked > limits.ratio_free_bytes && self.unpacked > packed.saturating_mul(limits.ratio) {
            return Err(ArchiveError::Ratio { packed, limit: limits.ratio });
        }
        Ok(())
    }

    /// Bytes that the archive may still unpack to.
    pub(super) const fn left(&self) -> u64 {
        self.limits.unpacked_bytes.saturating_sub(self.unpacked)
    }
}

/// The decompressor, with a count of its output.
struct Meter<'a> {
    decoder: Decoder<'a>,
    budget: Budget<'a>,
    watch: Watch<'a>,
}

impl<'a> Meter<'a> {
    fn packed(&self) -> &Packed<'a> {
        match &self.decoder {
            Decoder::Plain(reader) => reader.get_ref(),
            Decoder::Gzip(decoder) => decoder.get_ref().get_ref(),
            Decoder::Bzip2(decoder) => decoder.get_ref().get_ref(),
        }
    }
}

impl Read for Meter<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.watch.check()?;
        let n = self.decoder.read(buffer)?;
        self.budget.spend(n)?;
        Ok(n)
    }
}

/// The unpacked bytes of an archive.
pub(super) struct Input<'a> {
    reader: BufReader<Meter<'a>>,
    offset: u64,
}

impl<'a> Input<'a> {
    pub(super) fn new(
        file: &'a File,
        packing: Packing,
        limits: &'a Limits,
        watch: Watch<'a>,
    ) -> Result<Self, ArchiveError> {
        let packed = Packed::new(file, limits, watch)?;
        let budget = Budget::of(&packed, limits);
        let packed = BufReader::with_capacity(CHUNK_BYTES, packed);
        let decoder = match packing {
            Packing::None => Decoder::Plain(packed),
            Packing::Gzip => Decoder::Gzip(Box::new(MultiGzDecoder::new(packed))),
            Packing::Bzip2 => Decoder::Bzip2(MultiBzDecoder::new(packed)),
        };
        let meter = Meter { decoder, budget, watch };
        Ok(Self { reader: BufReader::with_capacity(CHUNK_BYTES, meter), offset: 0 })
    }

    /// Number of bytes handed out.
    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn check(&self) -> Result<(), ArchiveError> {
        self.reader.get_ref().watch.check()
    }

    /// Bytes that the decompressor may still return.
    pub(super) fn left(&self) -> u64 {
        self.reader.get_ref().budget.limits.unpacked_bytes.saturating_sub(self.offset)
    }

    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<(), ArchiveError> {
        self.reader.read_exact(buffer)?;
        self.offset += buffer.len() as u64;
        Ok(())
    }

    /// Passes exactly `bytes` bytes to `take`, in chunks.
    pub(super) fn each_chunk(
        &mut self,
        mut bytes: u64,
        mut take: impl FnMut(&[u8]) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        while bytes > 0 {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                return Err(ArchiveError::Truncated);
            }
            let n = chunk.len().min(usize::try_from(bytes).unwrap_or(usize::MAX));
            take(&chunk[..n])?;
            self.reader.consume(n);
            self.offset += n as u64;
            bytes -= n as u64;
        }
        Ok(())
    }

    /// Reads to the end of the file, where only zeros may follow, and returns the digest of the packed bytes.
    pub(super) fn finish(mut self) -> Result<u64, ArchiveError> {
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                return Ok(self.reader.get_ref().packed().digest());
            }
            if chunk.iter().any(|&byte| byte != 0) {
                return Err(ArchiveError::Trailing);
            }
            let n = chunk.len();
            self.reader.consume(n);
        }
    }

    /// Number of bytes that the decompressor has returned, including unread ones.
    #[cfg(test)]
    pub(super) fn decompressed(&self) -> u64 {
        self.reader.get_ref().budget.unpacked
    }
}
