//! Checks whether a folder or an archive would run as a tool, and reports likely mistakes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::archive::unpack;
use super::pack::{PackError, tool_name, write_archive};
use super::scratch::Scratch;
use super::unpacked::check_unpacked;
use super::{ArchiveError, Limits, RUN_SCRIPT, Unpacked};
use base::{InvalidToolName, ToolName};
use proc::temp_dir::temp_dir;

/// A tool that an agent would accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Name of the tool.
    pub tool: ToolName,
    /// Files, folders and links in it.
    pub entries: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Likely mistakes that do not prevent a run. Each is a sentence without a full stop.
    pub warnings: Vec<String>,
}

/// Why a tool would not run.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// Neither a folder nor a file named `.tar.gz`.
    #[error("{} is neither a folder nor a .tar.gz file", .path.display())]
    NotTool {
        /// The checked path.
        path: PathBuf,
    },
    /// The name is not a valid tool name.
    #[error("{}: {source}", .path.display())]
    Name {
        /// The checked path.
        path: PathBuf,
        /// The defect of the name.
        source: InvalidToolName,
    },
    /// The folder cannot be packed.
    #[error("{source}")]
    Pack {
        /// The reason.
        source: PackError,
    },
    /// An agent would refuse the archive.
    #[error("{}: {source}", .path.display())]
    Refused {
        /// The checked path.
        path: PathBuf,
        /// The reason.
        source: ArchiveError,
    },
    /// run.sh cannot be started, or `tool.toml` is wrong.
    #[error("{}: {why}", .path.display())]
    Invalid {
        /// The checked path.
        path: PathBuf,
        /// The defect.
        why: String,
    },
    /// The file system refused.
    #[error("cannot read {}: {source}", .path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// A tool that an agent would accept, with its archive.
pub struct PackedTool {
    /// Name of the tool.
    pub tool: ToolName,
    /// The archive.
    pub archive: PathBuf,
    /// Files, folders and links in it.
    pub entries: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Likely mistakes that do not prevent a run. Each is a sentence without a full stop.
    pub warnings: Vec<String>,
    /// Contains the archive that was packed from a folder. Dropping it removes the archive.
    _scratch: Scratch,
}

/// Checks a folder with a tool, or an archive `<tool>.tar.gz`. It is unpacked for that, in a private folder under the system's
/// folder for temporary files.
///
/// # Errors
/// Defects that would make each run of the tool fail. Likely mistakes are in [`Checked::warnings`].
pub fn check(path: &Path, limits: &Limits) -> Result<Checked, CheckError> {
    let PackedTool { tool, entries, bytes, warnings, .. } = packed(path, None, limits)?;
    Ok(Checked { tool, entries, bytes, warnings })
}

/// As [`check`], but also returns the archive; a folder is packed for that. `name` replaces the name in `path`.
///
/// # Errors
/// As [`check`].
pub fn packed(path: &Path, name: Option<ToolName>, limits: &Limits) -> Result<PackedTool, CheckError> {
    let io_error = |source| CheckError::Io { path: path.to_owned(), source };
    let metadata = fs::metadata(path).map_err(io_error)?;
    let scratch =
        Scratch::create(&temp_dir(), "llts-check-").map_err(|source| CheckError::Io { path: temp_dir(), source })?;
    let mut warnings = Vec::new();
    let (tool, archive) = if metadata.is_dir() {
        warnings.extend(not_executable(path));
        let pack_error = |source| CheckError::Pack { source };
        let tool = name.map_or_else(|| tool_name(path), Ok).map_err(pack_error)?;
        let archive = scratch.path().join(tool.archive_name());
        write_archive(path, &tool, &archive, limits).map_err(pack_error)?;
        (tool, archive)
    } else {
        (name.map_or_else(|| archive_tool(path), Ok)?, path.to_owned())
    };
    let file = File::open(&archive).map_err(io_error)?;
    let Unpacked { entries, bytes } = unpack(&file, &tool, scratch.path(), limits, &AtomicBool::new(false))
        .map_err(|source| CheckError::Refused { path: path.to_owned(), source })?;
    let folder = scratch.path().join(tool.as_str());
    warnings.extend(check_unpacked(&folder).map_err(|why| CheckError::Invalid { path: path.to_owned(), why })?);
    Ok(PackedTool { tool, archive, entries, bytes, warnings, _scratch: scratch })
}

/// The tool of an archive, by the archive's name.
fn archive_tool(path: &Path) -> Result<ToolName, CheckError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some(tool) = name.strip_suffix(".tar.gz") else {
        return Err(CheckError::NotTool { path: path.to_owned() });
    };
    ToolName::new(tool).map_err(|source| CheckError::Name { path: path.to_owned(), source })
}

fn not_executable(dir: &Path) -> Option<String> {
    let metadata = fs::metadata(dir.join(RUN_SCRIPT)).ok()?;
    let executable = metadata.permissions().mode() & 0o100 != 0;
    (!executable).then(|| "run.sh is not executable; packing makes it so".to_owned())
}
