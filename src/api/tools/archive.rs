//! Unpacks one tool archive, which may be hostile.
//!
//! The rules:
//!
//! - All or nothing: the tool's folder appears with one rename after the archive has been read to its last byte.
//! - Nothing is skipped. An entry that must not be unpacked makes the whole archive fail: absolute paths, `..`, links that
//!   leave the tool's folder, devices, FIFOs, sparse files, duplicate names (except folders), anything beyond [`Limits`].
//! - Symbolic links are relative, with `..` only at the beginning. Hard links name an earlier regular file.
//! - Files get at least u+rw and folders u+rwx; setuid, setgid, sticky and writing by others are dropped.
//! - Several gzip members are one stream (RFC 1952). Only zeros may follow the tar's end mark, and nothing may follow gzip.
//! - Layout: either every entry is in one folder with the name of the tool, or run.sh and the rest are at the top. With a
//!   run.sh at the top, a folder with the name of the tool is an ordinary subfolder. A leading `./` is ignored.
//!
//! A program that is fetched from a source (`agent::source`) is unpacked by the same rules, except for the layout: its
//! run.sh is at the top. It may come as a plain tar, with gzip or bzip2, or as a zip.

mod error;
mod header;
mod input;
mod inventory;
mod members;
mod path;
mod seal;
mod stage;
mod survey;
mod zipped;

use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use error::{ArchiveError, Fault};
use input::Input;
pub(super) use input::{Packed, Watch};
use inventory::Stocktaking;
pub(super) use inventory::{Inventory, Part};
use members::{Kind, Members};
pub(super) use seal::{Seal, Sealer};
use stage::Stage;
pub use survey::survey;

use base::ToolName;

/// Bytes of a GNU long name or a PAX header. The paths in it have at most a few KiB. Other readers were measured to take 593 MiB
/// of memory for a length that a 509 KiB archive claims.
pub const EXTENSION_BYTES_MAX: u64 = 64 * 1024;

/// Limits of an archive: the keys ARCHIVE_*, UNPACKED_BYTES_MAX and UNPACK_TIMEOUT. `defaults.toml` has their defaults and
/// reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The size of the archive in bytes.
    pub packed_bytes: u64,
    /// Bytes that the decompressor returns, including headers and padding. The limit also holds for the bytes of all files, with
    /// hard links counted again.
    pub unpacked_bytes: u64,
    /// Entries, including folders that are only implied by a path.
    pub entries: u64,
    /// Unpacked bytes per packed byte.
    pub ratio: u64,
    /// Unpacked bytes before [`Limits::ratio`] applies: small texts may compress well.
    pub ratio_free_bytes: u64,
    /// Bytes of a path, and of the target of a link.
    pub path_bytes: u64,
    /// Names in a path.
    pub depth: u64,
    /// Time limit for unpacking.
    pub timeout: Duration,
}

impl Limits {
    /// The usual [`Limits::ratio_free_bytes`]: 16 MiB.
    pub const RATIO_FREE_BYTES: u64 = 16 * 1024 * 1024;
}

/// How the bytes of a tar are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    None,
    /// gzip, RFC 1952.
    Gzip,
    /// bzip2.
    Bzip2,
}

/// What kind of archive a program comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A tar.
    Tar(Packing),
    /// A zip with stored or deflated entries.
    Zip,
}

/// Where run.sh stands in an archive.
#[derive(Clone, Copy, Debug)]
enum Layout<'a> {
    /// At the top, or in one folder that has the name of the tool and contains everything.
    Tool(&'a ToolName),
    /// At the top. The folder that is made has this name.
    Top(&'a str),
}

impl<'a> Layout<'a> {
    /// The name of the folder that is made.
    fn folder(self) -> &'a str {
        match self {
            Self::Tool(tool) => tool.as_str(),
            Self::Top(name) => name,
        }
    }

    /// The folder in the archive that may hold everything.
    fn wrapper(self) -> Option<&'a str> {
        match self {
            Self::Tool(tool) => Some(tool.as_str()),
            Self::Top(_) => None,
        }
    }
}

/// The result of unpacking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// Number of files, folders and links.
    pub entries: u64,
    /// Bytes of all files, with hard links counted again.
    pub bytes: u64,
}

/// Unpacks `archive` to `into/<tool>/`, from its first byte, without moving its cursor. `into` must exist and belong to the
/// caller alone; on an error it is left empty. `stop` is checked for each entry and each 64 KiB.
///
/// # Errors
/// [`ArchiveError::fault`] says whether the archive, its run.sh, the system or `stop` is the reason.
pub fn unpack(
    archive: &File,
    tool: &ToolName,
    into: &Path,
    limits: &Limits,
    stop: &AtomicBool,
) -> Result<Unpacked, ArchiveError> {
    unpack_with_inventory(archive, tool, into, limits, stop).map(|(unpacked, ..)| unpacked)
}

/// Unpacks an archive whose run.sh stands at the top to `into/<name>/`, by the rules of [`unpack`].
///
/// # Errors
/// As [`unpack`].
pub fn unpack_program(
    archive: &File,
    format: Format,
    name: &str,
    into: &Path,
    limits: &Limits,
    stop: &AtomicBool,
) -> Result<Unpacked, ArchiveError> {
    let watch = Watch::start(limits.timeout, stop);
    let mut stage = Stage::create(into, Layout::Top(name), limits)?;
    match format {
        Format::Zip => zipped::each_member(archive, limits, watch, |member, content| stage.add(member, content))?,
        Format::Tar(packing) => {
            let mut members = Members::new(Input::new(archive, packing, limits, watch)?, limits);
            while let Some(member) = members.next()? {
                stage.add(&member, &mut members)?;
            }
            members.input.finish()?;
        }
    }
    stage.finish()
}

/// Like [`unpack`]. Also returns the inventory of the tool, and [`Packed::digest`] of exactly the bytes that were unpacked.
pub(super) fn unpack_with_inventory(
    archive: &File,
    tool: &ToolName,
    into: &Path,
    limits: &Limits,
    stop: &AtomicBool,
) -> Result<(Unpacked, Inventory, u64), ArchiveError> {
    let input = Input::new(archive, Packing::Gzip, limits, Watch::start(limits.timeout, stop))?;
    let mut members = Members::new(input, limits);
    let mut stage = Stage::create(into, Layout::Tool(tool), limits)?;
    let mut stocktaking = Stocktaking::new(tool, limits);
    while let Some(member) = members.next()? {
        stage.add(&member, &mut members)?;
        stocktaking.add(&member, members.seal())?;
    }
    let digest = members.input.finish()?;
    let unpacked = stage.finish()?;
    Ok((unpacked, stocktaking.finish()?, digest))
}

/// The inventory of an archive that was unpacked before, and [`Packed::digest`] of its bytes. Writes nothing.
pub(super) fn inventory(
    archive: &File,
    tool: &ToolName,
    limits: &Limits,
    stop: &AtomicBool,
) -> Result<(Inventory, u64), ArchiveError> {
    let input = Input::new(archive, Packing::Gzip, limits, Watch::start(limits.timeout, stop))?;
    let mut members = Members::new(input, limits);
    let mut stocktaking = Stocktaking::new(tool, limits);
    while let Some(member) = members.next()? {
        if let Kind::File { bytes } = member.kind {
            members.content(bytes, |_| Ok(()))?;
        }
        stocktaking.add(&member, members.seal())?;
    }
    let digest = members.input.finish()?;
    Ok((stocktaking.finish()?, digest))
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use super::*;

    /// The defaults of the configuration.
    pub(in crate::tools) fn limits() -> Limits {
        Limits {
            packed_bytes: 268_435_456,
            unpacked_bytes: 2_147_483_648,
            entries: 20_000,
            ratio: 200,
            ratio_free_bytes: Limits::RATIO_FREE_BYTES,
            path_bytes: 1024,
            depth: 32,
            timeout: Duration::from_mins(1),
        }
    }

    /// A long name is refused by the length in its header, before the decompressor returns more than one
    /// chunk (docs/design/hazards.md, X4).
    #[test]
    fn an_extended_header_bomb_is_refused_before_it_is_read() {
        for kind in [b'L', b'K', b'x', b'g'] {
            let mut header = tar::Header::new_gnu();
            header.set_path("bomb").unwrap();
            header.set_entry_type(tar::EntryType::new(kind));
            header.set_size(600 << 20);
            header.set_cksum();
            let mut gzip = flate2::write::GzEncoder::new(tempfile::tempfile().unwrap(), flate2::Compression::fast());
            gzip.write_all(header.as_bytes()).unwrap();
            for _ in 0..64 {
                gzip.write_all(&[b'a'; 1 << 16]).unwrap();
            }
            let file = gzip.finish().unwrap();
            let (limits, stop) = (limits(), AtomicBool::new(false));
            let input = Input::new(&file, Packing::Gzip, &limits, Watch::start(limits.timeout, &stop)).unwrap();
            let mut members = Members::new(input, &limits);
            let error = members.next().unwrap_err();
            assert!(matches!(error, ArchiveError::ExtensionBytes { bytes: 629_145_600, limit: 65_536 }), "{error}");
            assert!(members.input.decompressed() <= 64 * 1024, "{}", members.input.decompressed());
        }
    }
}
