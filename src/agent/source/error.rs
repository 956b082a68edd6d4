//! The errors of a fetch. Each displays as a fragment with the value that is wrong.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use api::tools::{ArchiveError, PackError};
use base::{ExitCode, InvalidSource, words};

/// Why there is no program.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The text is no source.
    #[error(transparent)]
    Invalid(#[from] InvalidSource),
    /// The server cannot be reached, or breaks off.
    #[error("cannot fetch {url}: {reason}")]
    Http {
        /// The requested source.
        url: String,
        /// The error of the library.
        reason: String,
    },
    /// The server answers, but not with a program.
    #[error("cannot fetch {url}: the server answers {status}")]
    Status {
        /// The requested source.
        url: String,
        /// The status line.
        status: String,
    },
    /// rsync has failed, or has copied nothing.
    #[error("cannot fetch {place:?} with rsync: {reason}")]
    Rsync {
        /// The argument for rsync.
        place: String,
        /// The last line of rsync.
        reason: String,
    },
    /// More bytes than an archive may have.
    #[error("{place} has more than the {limit} bytes that are allowed")]
    TooLong {
        /// The fetched source.
        place: String,
        /// Bytes that are allowed.
        limit: u64,
    },
    /// The time limit has passed.
    #[error("{place} was not fetched within {} s", limit.as_secs())]
    TimedOut {
        /// The fetched source.
        place: String,
        /// The time that is allowed.
        limit: Duration,
    },
    /// The fetched archive must not be unpacked.
    #[error("cannot unpack {place}: {error}")]
    Archive {
        /// The fetched source.
        place: String,
        /// The reason, as a sentence part.
        #[source]
        error: ArchiveError,
    },
    /// The bytes do not have the SHA-256 that the submitter demands.
    #[error("{place} has the SHA-256 {found}, and {} is {wanted}", words::SOURCE_SHA256)]
    Checksum {
        /// The fetched source.
        place: String,
        /// The demanded digits.
        wanted: String,
        /// The digits of the fetched bytes.
        found: String,
    },
    /// The unpacked program cannot be packed as a tool.
    #[error("cannot keep {place} as a tool: {error}")]
    Pack {
        /// The fetched source.
        place: String,
        /// The reason, as a sentence part.
        #[source]
        error: PackError,
    },
    /// The bytes are those that could not be unpacked before.
    #[error("{0} (it has not changed since)")]
    Unchanged(String),
    /// A file or folder of llts cannot be used.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// The operation that failed, as a verb.
        action: &'static str,
        /// The path of the file or folder.
        path: PathBuf,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// Something that is no folder has the name of the program.
    #[error("{} is in the way: it is no folder", .0.display())]
    InTheWay(PathBuf),
    /// The caller has stopped the fetch.
    #[error("stopped")]
    Stopped,
}

impl SourceError {
    /// The exit code of a run that ends with this error, as with a tool: -130 for bytes that are no program, -131 without any bytes.
    #[must_use]
    pub const fn exit_code(&self) -> ExitCode {
        match self {
            Self::Archive { .. } | Self::Checksum { .. } | Self::Pack { .. } | Self::Unchanged(_) => {
                ExitCode::UNPACK_FAILED
            }
            Self::Stopped => ExitCode::KILLED_PREPARING,
            _ => ExitCode::PREPARE_FAILED,
        }
    }

    /// Whether the same bytes would fail again, on any machine.
    pub(super) fn is_about_the_bytes(&self) -> bool {
        use api::tools::archive::Fault;
        matches!(self, Self::Archive { error, .. } if matches!(error.fault(), Fault::Archive | Fault::Script))
            && !matches!(self, Self::Archive { error: ArchiveError::TimedOut { .. }, .. })
    }
}
