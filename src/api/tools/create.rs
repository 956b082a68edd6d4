//! Makes the folder of a new tool, with a run.sh as a starting point.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::RUN_SCRIPT;
use base::{InvalidToolName, ToolName};

/// The content of a new run.sh, which can be run as it is.
const TEMPLATE: &str = r#"#!/bin/sh
# Runs one task. The working directory is this folder, a copy that belongs to this task alone and goes with it.
#
#   ../task.info        the fields of the task, one key=value a line; ../task.json has them exactly
#   ../controller.info  where to submit child tasks
#   $PARAM_<name>       the parameter of that name
#   report.log          its end comes back with the result, as do the ends of stdout and stderr
#
# Exit with 0 when the task is done.
set -eu

echo "hello, ${PARAM_name:-world}" >> report.log
"#;

/// Why a tool was not made.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The folder's name is not a valid tool name.
    #[error("cannot make {}: {source}", .dir.display())]
    Name {
        /// Path of the folder.
        dir: PathBuf,
        /// The error in its name.
        source: InvalidToolName,
    },
    /// A file or folder of that name exists.
    #[error("{} already exists", .dir.display())]
    Exists {
        /// Its path.
        dir: PathBuf,
    },
    /// The file system refused.
    #[error("cannot make {}: {source}", .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Makes the folder `dir`, and those above it, with an executable run.sh that reports the id of its task.
///
/// # Errors
/// When `dir` exists or cannot be made, or its name is no valid tool name.
pub fn create(dir: &Path) -> Result<ToolName, CreateError> {
    let io_error = |path: &Path| {
        let path = path.to_owned();
        move |source| CreateError::Io { path, source }
    };
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let tool = ToolName::new(&name).map_err(|source| CreateError::Name { dir: dir.to_owned(), source })?;
    if let Some(parent) = dir.parent() {
        fs::create_dir_all(parent).map_err(io_error(parent))?;
    }
    DirBuilder::new().create(dir).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => CreateError::Exists { dir: dir.to_owned() },
        _ => CreateError::Io { path: dir.to_owned(), source },
    })?;
    let script = dir.join(RUN_SCRIPT);
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(&script)
        .and_then(|mut file| file.write_all(TEMPLATE.as_bytes()))
        .map_err(io_error(&script))?;
    Ok(tool)
}
