//! The members of a tar stream, one after the other: ustar, GNU long names, and PAX `path`, `linkpath` and `size`.
//!
//! This module reads the headers itself, because the iterator of the crate `tar` buffers an extended header of any length in
//! memory before it can be refused. An archive that two tar readers could interpret differently is refused.

use std::borrow::Cow;

use tar::Header;

use super::error::shown;
use super::header::{checksum_matches, number, pax};
use super::input::Input;
use super::path::InnerPath;
use super::seal::{Seal, Sealer};
use super::{ArchiveError, EXTENSION_BYTES_MAX, Limits};

const BLOCK_BYTES: u64 = 512;

/// The kind of a member.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A regular file, whose content follows in the stream.
    File { bytes: u64 },
    /// A folder.
    Folder,
    /// A symbolic link with its unchecked target.
    Symlink { target: Vec<u8> },
    /// A second name for an earlier file.
    HardLink { target: InnerPath },
}

/// One member.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) path: InnerPath,
    pub(super) kind: Kind,
    pub(super) mode: u32,
}

/// The contents of GNU and PAX headers for the member after them. Each value may occur once.
#[derive(Default)]
struct Extension {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    pax: bool,
}

/// Where the content of a file comes from.
pub(super) trait Content {
    /// Hands exactly `bytes` bytes to `take`, in chunks.
    fn content(
        &mut self,
        bytes: u64,
        take: &mut dyn FnMut(&[u8]) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError>;
}

impl Content for Members<'_> {
    fn content(
        &mut self,
        bytes: u64,
        take: &mut dyn FnMut(&[u8]) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        self.content(bytes, take)
    }
}

/// Reads members. After a [`Kind::File`] its content must be taken with [`Members::content`].
pub(super) struct Members<'a> {
    pub(super) input: Input<'a>,
    limits: &'a Limits,
    headers: u64,
    /// For the last content.
    sealer: Sealer,
}

impl<'a> Members<'a> {
    pub(super) fn new(input: Input<'a>, limits: &'a Limits) -> Self {
        Self { input, limits, headers: 0, sealer: Sealer::new() }
    }

    /// The next member; `None` at the end mark.
    pub(super) fn next(&mut self) -> Result<Option<Member>, ArchiveError> {
        let mut extension = Extension::default();
        loop {
            self.input.check()?;
            let Some(header) = self.header()? else {
                let dangling = extension.pax || extension.path.is_some() || extension.link.is_some();
                return if dangling { self.refuse("belongs to no entry") } else { Ok(None) };
            };
            let twice = match header.entry_type().as_byte() {
                b'L' => extension.path.replace(self.long_name(&header)?).is_some(),
                b'K' => extension.link.replace(self.long_name(&header)?).is_some(),
                b'x' => self.pax(&header, &mut extension)?,
                b'g' => self.global(&header)?,
                _ => return self.member(&header, extension).map(Some),
            };
            if twice {
                return self.refuse("is a second one for the same entry");
            }
        }
    }

    /// Passes the content of a file to `take`, in chunks.
    pub(super) fn content(
        &mut self,
        bytes: u64,
        mut take: impl FnMut(&[u8]) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        self.sealer = Sealer::new();
        self.input.each_chunk(bytes, |chunk| {
            self.sealer.add(chunk);
            take(chunk)
        })?;
        self.input.each_chunk(padding(bytes), |_| Ok(()))
    }

    /// The seal of the content that was read last.
    pub(super) fn seal(&self) -> Seal {
        self.sealer.seal()
    }

    /// A block with a header; `None` for a block of zeros, which is the end mark.
    fn header(&mut self) -> Result<Option<Header>, ArchiveError> {
        let mut header = Header::new_old();
        self.input.fill(header.as_mut_bytes())?;
        if header.as_bytes().iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        if !checksum_matches(&header) {
            return self.refuse("has a wrong checksum");
        }
        Ok(Some(header))
    }

    fn member(&mut self, header: &Header, extension: Extension) -> Result<Member, ArchiveError> {
        self.count()?;
        let raw = extension.path.unwrap_or_else(|| header.path_bytes().into_owned());
        let path = InnerPath::new(&raw, self.limits)?;
        let bytes = match extension.size {
            Some(size) => size,
            None => self.number(&header.as_old().size, "has a size that is not a number")?,
        };
        let mode = self.number(&header.as_old().mode, "has a mode that is not a number")?;
        let link = || extension.link.or_else(|| header.link_name_bytes().map(Cow::into_owned)).unwrap_or_default();
        let kind = match header.entry_type().as_byte() {
            // Tars that are older than the type field mark a folder by a slash at the end.
            b'0' | 0 | b'7' if raw.ends_with(b"/") => Kind::Folder,
            b'0' | 0 | b'7' => Kind::File { bytes },
            b'1' => Kind::HardLink { target: InnerPath::new(&link(), self.limits)? },
            b'2' => Kind::Symlink { target: link() },
            b'5' => Kind::Folder,
            other => return Err(ArchiveError::Kind { path: shown(&raw), kind: kind_name(other) }),
        };
        if path.is_root() && kind != Kind::Folder {
            return Err(ArchiveError::path(&raw, "names no file"));
        }
        if bytes > 0 && !matches!(kind, Kind::File { .. }) {
            return self.refuse("has content but is not a file");
        }
        if bytes > self.input.left() {
            return Err(ArchiveError::UnpackedBytes { limit: self.limits.unpacked_bytes });
        }
        // No setuid, setgid or sticky bit, and no write permission for others.
        Ok(Member { path, kind, mode: u32::try_from(mode & 0o755).unwrap_or_default() })
    }

    fn long_name(&mut self, header: &Header) -> Result<Vec<u8>, ArchiveError> {
        let mut name = self.extension(header)?;
        // GNU ends it with a NUL. A NUL in the middle is refused with the path.
        if name.last() == Some(&0) {
            name.pop();
        }
        Ok(name)
    }

    /// Reads a PAX header of one entry. True if it is the second one, or repeats a value of a GNU header.
    fn pax(&mut self, header: &Header, extension: &mut Extension) -> Result<bool, ArchiveError> {
        let data = self.extension(header)?;
        let read = pax(&data).or_else(|why| self.refuse(why))?;
        let twice = extension.pax
            || (read.path.is_some() && extension.path.is_some())
            || (read.link.is_some() && extension.link.is_some());
        extension.pax = true;
        extension.path = extension.path.take().or(read.path);
        extension.link = extension.link.take().or(read.link);
        extension.size = read.size;
        Ok(twice)
    }

    /// Reads a PAX header for all following entries. `git archive` writes one with a comment; a path for every entry is an
    /// attack.
    fn global(&mut self, header: &Header) -> Result<bool, ArchiveError> {
        self.count()?;
        let data = self.extension(header)?;
        let read = pax(&data).or_else(|why| self.refuse(why))?;
        if read != super::header::Pax::default() {
            return self.refuse("sets a path or a size for all entries");
        }
        Ok(false)
    }

    /// The content of an extended header, refused by its claimed length before any of it is read.
    fn extension(&mut self, header: &Header) -> Result<Vec<u8>, ArchiveError> {
        let bytes = self.number(&header.as_old().size, "has a size that is not a number")?;
        if bytes > EXTENSION_BYTES_MAX {
            return Err(ArchiveError::ExtensionBytes { bytes, limit: EXTENSION_BYTES_MAX });
        }
        let mut data = Vec::new();
        self.content(bytes, |chunk| {
            data.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(data)
    }

    fn number(&self, field: &[u8], why: &'static str) -> Result<u64, ArchiveError> {
        number(field).map_or_else(|| self.refuse(why), Ok)
    }

    const fn count(&mut self) -> Result<(), ArchiveError> {
        self.headers += 1;
        if self.headers > self.limits.entries {
            return Err(ArchiveError::Entries { limit: self.limits.entries });
        }
        Ok(())
    }

    /// Refuses the header that was read last.
    const fn refuse<T>(&self, why: &'static str) -> Result<T, ArchiveError> {
        Err(ArchiveError::Header { offset: self.input.offset().saturating_sub(BLOCK_BYTES), why })
    }
}

const fn padding(bytes: u64) -> u64 {
    bytes.wrapping_neg() % BLOCK_BYTES
}

const fn kind_name(kind: u8) -> &'static str {
    match kind {
        b'3' => "a character device",
        b'4' => "a block device",
        b'6' => "a FIFO",
        b'S' => "a sparse file",
        b'V' | b'M' => "part of a multi-volume tar",
        b'D' => "an incremental backup",
        _ => "of an unknown kind",
    }
}
