//! The inputs of a task: each is fetched once per machine, checked, and copied into the folder in which the run starts.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicBool;

use rustix::fs::{Mode, OFlags, openat};

use super::failure::unprepared;
use super::fetch::Fetcher;
use crate::slot::Failure;
use crate::workspace::{TaskDir, make_folder};
use api::tools::ToolError;
use api::wire::requests::apply::Dispatch;
use api::wire::requests::file::NAME_IS_TAKEN;
use base::{ExitCode, FileName, TaskFiles, TaskInput};
use proc::files::file_copy::copy_into;

/// Puts the inputs of a task into its folder.
///
/// # Errors
/// With a sentence that names the file and the task.
pub(super) fn place(
    fetcher: &Fetcher,
    (dispatch, files): (&Dispatch, &TaskFiles),
    dir: &TaskDir,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    if files.inputs.is_empty() {
        return Ok(());
    }
    let folder = dir.tool_folder(&dispatch.tool).map_err(|error| unprepared(&error))?;
    for TaskInput { name, digest, is_executable } in &files.inputs {
        let failed = |exit_code, why: &dyn std::fmt::Display| Failure {
            exit_code,
            error: format!("the input {name} of task {}: {why}", dispatch.task),
        };
        let fetched = fetcher.open_file(name, digest, stop).map_err(|error| match error {
            ToolError::Stopped => failed(ExitCode::KILLED_PREPARING, &error),
            error => failed(unprepared(&error).exit_code, &error),
        })?;
        let placed = create(&folder, name, *is_executable).and_then(|new| copy_into(&fetched, &new));
        placed.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => failed(ExitCode::PREPARE_FAILED, &NAME_IS_TAKEN),
            _ => failed(
                unprepared(&error).exit_code,
                &format!("it cannot be written into the folder of the task: {error}"),
            ),
        })?;
    }
    Ok(())
}

/// Makes a new file below a folder, with the folders on the way to it. No link of the tool is followed. Only the agent's user can
/// reach the folder, so the file has no rights for others.
fn create(folder: &impl AsFd, name: &FileName, is_executable: bool) -> io::Result<File> {
    let mut parts = name.parts();
    let last = parts.next_back().unwrap_or_default();
    let mut below: Option<OwnedFd> = None;
    for part in parts {
        let from = below.as_ref().map_or(folder.as_fd(), AsFd::as_fd);
        make_folder(from, &part)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        below = Some(openat(from, &part, flags, Mode::empty())?);
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let from = below.as_ref().map_or(folder.as_fd(), AsFd::as_fd);
    let mode = if is_executable { Mode::RWXU } else { Mode::RUSR | Mode::WUSR };
    Ok(openat(from, last, flags, mode).map(File::from)?)
}
