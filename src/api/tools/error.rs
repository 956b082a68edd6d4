//! Why a tool could not be placed for a run, and the exit code that the run then ends with.

use std::io;
use std::path::{Path, PathBuf};

use super::archive::{ArchiveError, Fault};
use base::ExitCode;

/// A tool that could not be placed. The text names the file and the cause; [`ToolError::exit_code`] is what the client
/// sees.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The tools folder has no archive of that name.
    #[error("there is no {}", .archive.display())]
    Missing {
        /// The path that was looked up.
        archive: PathBuf,
    },
    /// The archive is a symbolic link to a place outside the tools folder.
    #[error("{} is a link that leaves the tools folder", .archive.display())]
    Outside {
        /// Path of the link.
        archive: PathBuf,
    },
    /// The archive is damaged, hostile or beyond a limit.
    #[error("cannot unpack {}: {source}", .archive.display())]
    Unpack {
        /// The archive.
        archive: PathBuf,
        /// The error in it.
        source: ArchiveError,
    },
    /// The archive is sound, but it contains no run.sh that can be started.
    #[error("{}: {source}", .archive.display())]
    NoScript {
        /// The archive.
        archive: PathBuf,
        /// [`ArchiveError::NoScript`] or [`ArchiveError::ScriptNotFile`].
        source: ArchiveError,
    },
    /// The archive was rewritten during each of several attempts to read it.
    #[error("{} changes while it is read; replace it with a rename", .archive.display())]
    Changing {
        /// The archive.
        archive: PathBuf,
    },
    /// The controller does not hand out the version that the task has pinned, or a file.
    #[error("{what} cannot be fetched from the controller: {why}")]
    NotFetched {
        /// The tool or the file.
        what: String,
        /// The reason, as a sentence without a full stop.
        why: String,
    },
    /// The file system refused.
    #[error("cannot {what} {}: {source}", .path.display())]
    Io {
        /// The operation that failed, as a verb.
        what: &'static str,
        /// The file on which it failed.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The run was stopped while the tool was being placed.
    #[error("stopped while the tool was being placed")]
    Stopped,
}

impl ToolError {
    /// The exit code of a run that ends with this error (docs/sources/controller.md, 2.7).
    #[must_use]
    pub const fn exit_code(&self) -> ExitCode {
        match self {
            Self::Missing { .. } | Self::Outside { .. } | Self::NotFetched { .. } => ExitCode::TOOL_MISSING,
            Self::Unpack { .. } => ExitCode::UNPACK_FAILED,
            Self::NoScript { .. } | Self::Changing { .. } | Self::Io { .. } => ExitCode::PREPARE_FAILED,
            Self::Stopped => ExitCode::KILLED_PREPARING,
        }
    }

    /// An error of the system with a file.
    pub fn io(what: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { what, path: path.to_owned(), source: source.into() }
    }

    pub(super) fn from_archive(archive: &Path, source: ArchiveError) -> Self {
        let archive = archive.to_owned();
        match source.fault() {
            Fault::Archive => Self::Unpack { archive, source },
            Fault::Script => Self::NoScript { archive, source },
            Fault::Stop => Self::Stopped,
            Fault::System => match source {
                ArchiveError::Write { path, source } => Self::Io { what: "write", path: path.into(), source },
                ArchiveError::Read { source } => Self::Io { what: "read", path: archive, source },
                source => Self::Unpack { archive, source },
            },
        }
    }
}
