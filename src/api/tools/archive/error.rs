//! Defects of an archive. Each text is a lower-case fragment with the excessive value.

use std::io;
use std::time::Duration;

/// Why an archive was not unpacked. Paths are shortened and lossy: they are for reading, not for opening.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The archive is a folder, a FIFO, a device or a socket.
    #[error("it is not a regular file")]
    NotFile,
    /// More packed bytes than [`Limits::packed_bytes`](super::Limits::packed_bytes).
    #[error("it has {bytes} packed bytes, {limit} are allowed")]
    PackedBytes {
        /// Packed bytes of the archive.
        bytes: u64,
        /// Allowed packed bytes.
        limit: u64,
    },
    /// More unpacked bytes than [`Limits::unpacked_bytes`](super::Limits::unpacked_bytes).
    #[error("it unpacks to more than the {limit} bytes that are allowed")]
    UnpackedBytes {
        /// Allowed unpacked bytes.
        limit: u64,
    },
    /// More unpacked bytes per packed byte than [`Limits::ratio`](super::Limits::ratio).
    #[error("its {packed} packed bytes unpack to more than {limit} times as many")]
    Ratio {
        /// Packed bytes of the archive.
        packed: u64,
        /// Allowed unpacked bytes per packed byte.
        limit: u64,
    },
    /// More entries than [`Limits::entries`](super::Limits::entries).
    #[error("it has more than the {limit} entries that are allowed")]
    Entries {
        /// Allowed entries.
        limit: u64,
    },
    /// Unpacking took longer than [`Limits::timeout`](super::Limits::timeout).
    #[error("it is not unpacked after {limit:?}")]
    TimedOut {
        /// Allowed time.
        limit: Duration,
    },
    /// A path longer than [`Limits::path_bytes`](super::Limits::path_bytes).
    #[error("the path {path:?} has {bytes} bytes, {limit} are allowed")]
    PathBytes {
        /// Beginning of the path.
        path: String,
        /// Length of the path in bytes.
        bytes: usize,
        /// Allowed bytes.
        limit: u64,
    },
    /// A path with more names than [`Limits::depth`](super::Limits::depth).
    #[error("the path {path:?} is {depth} names deep, {limit} are allowed")]
    Depth {
        /// The path.
        path: String,
        /// Number of names in the path.
        depth: usize,
        /// Allowed number of names.
        limit: u64,
    },
    /// A GNU long name or a PAX header longer than [`EXTENSION_BYTES_MAX`](super::EXTENSION_BYTES_MAX).
    #[error("it has an extended header of {bytes} bytes, {limit} are allowed")]
    ExtensionBytes {
        /// Bytes that the header claims.
        bytes: u64,
        /// Allowed bytes.
        limit: u64,
    },
    /// A path that would leave the folder, or that no file system accepts.
    #[error("the path {path:?} {why}")]
    Path {
        /// The path.
        path: String,
        /// The defect, as the rest of the sentence.
        why: &'static str,
    },
    /// A link that would leave the tool's folder.
    #[error("the link {path:?} to {target:?} {why}")]
    Link {
        /// Path of the link.
        path: String,
        /// Target of the link.
        target: String,
        /// The defect, as the rest of the sentence.
        why: &'static str,
    },
    /// A device, a FIFO, a sparse file or an unknown kind.
    #[error("{path:?} is {kind}, which a tool may not contain")]
    Kind {
        /// The path.
        path: String,
        /// Description of the kind.
        kind: &'static str,
    },
    /// Two entries with conflicting names.
    #[error("{path:?} occurs twice")]
    Duplicate {
        /// The path.
        path: String,
    },
    /// Neither all entries in one folder nor run.sh at the top.
    #[error("{beside:?} is beside the folder {tool}/, which contains run.sh")]
    Layout {
        /// The first entry outside the folder.
        beside: String,
        /// Name of the folder.
        tool: String,
    },
    /// A header that readers could interpret differently.
    #[error("the header at byte {offset} {why}")]
    Header {
        /// Unpacked bytes before it.
        offset: u64,
        /// The defect, as the rest of the sentence.
        why: &'static str,
    },
    /// Not gzip, or its checksum does not match.
    #[error("it is not gzip or is damaged: {source}")]
    Gzip {
        /// Error of the decompressor.
        source: io::Error,
    },
    /// Not in the format that its name suggests, or its checksum does not match.
    #[error("it is not {format} or is damaged: {cause}")]
    Damaged {
        /// The format that its name suggests.
        format: &'static str,
        /// The error of the reader.
        cause: io::Error,
    },
    /// It ends too early.
    #[error("it is truncated")]
    Truncated,
    /// Data follows its end.
    #[error("it continues after its end")]
    Trailing,
    /// There is no run.sh in the expected place.
    #[error("there is no run.sh in it")]
    NoScript,
    /// run.sh is a folder or a link.
    #[error("its run.sh is not a regular file")]
    ScriptNotFile,
    /// tool.toml is a folder or a link.
    #[error("its tool.toml is not a regular file")]
    ManifestNotFile,
    /// The folder could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The path.
        path: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The archive could not be read.
    #[error("cannot read it: {source}")]
    Read {
        /// Error of the system.
        source: io::Error,
    },
    /// The caller's flag was set.
    #[error("stopped")]
    Stopped,
}

/// The cause of an [`ArchiveError`]; it determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The archive must not be unpacked.
    Archive,
    /// The archive is valid, but contains no program to start.
    Script,
    /// The file system or the machine.
    System,
    /// The caller has set the stop flag.
    Stop,
}

impl ArchiveError {
    /// The cause of the error.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::NoScript | Self::ScriptNotFile => Fault::Script,
            Self::Write { .. } | Self::Read { .. } => Fault::System,
            Self::Stopped => Fault::Stop,
            _ => Fault::Archive,
        }
    }

    pub(super) fn write(path: &[u8], source: impl Into<io::Error>) -> Self {
        Self::Write { path: shown(path), source: source.into() }
    }

    pub(super) fn damaged(format: &'static str, cause: impl Into<io::Error>) -> Self {
        Self::Damaged { format, cause: cause.into() }
    }

    pub(super) fn path(path: &[u8], why: &'static str) -> Self {
        Self::Path { path: shown(path), why }
    }

    pub(super) fn link(path: &[u8], target: &[u8], why: &'static str) -> Self {
        Self::Link { path: shown(path), target: shown(target), why }
    }

    pub(super) fn duplicate(path: &[u8]) -> Self {
        Self::Duplicate { path: shown(path) }
    }
}

/// Our own errors pass through `Read` wrapped in an `io::Error`.
impl From<ArchiveError> for io::Error {
    fn from(error: ArchiveError) -> Self {
        Self::other(error)
    }
}

impl From<io::Error> for ArchiveError {
    fn from(error: io::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(ours) => ours,
            Err(source) => match source.kind() {
                io::ErrorKind::UnexpectedEof => Self::Truncated,
                io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => Self::Gzip { source },
                _ => Self::Read { source },
            },
        }
    }
}

/// A path for a message: readable, and short even if the archive contains a long name.
pub(super) fn shown(path: &[u8]) -> String {
    const CHARS_MAX: usize = 200;
    String::from_utf8_lossy(path).chars().take(CHARS_MAX).collect()
}
