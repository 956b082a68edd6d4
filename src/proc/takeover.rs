//! Turns a process into another version of its program, by an exec that keeps its pid, its children and chosen descriptors.
//!
//! The state is passed in memory: the last argument of the new program is the number of a descriptor with the state. A
//! file in STATE_DIR names the program, the [`Successor`], and a signal announces that file.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::FdFlags;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::process::adopt_descriptor;
use super::{limits, logging};
use crate::files::state_file;
use base::path_text::as_text;

/// The name of a supervisor in a [`Successor`].
pub const SUPERVISOR: &str = "supervisor";

/// The name of a controller in a [`Successor`].
pub const CONTROLLER: &str = "controller";

/// The program that will replace a process.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Successor {
    /// The id of the request, which the answers repeat.
    pub id: String,
    /// The program, as an absolute path.
    #[serde(with = "as_text")]
    pub program: PathBuf,
    /// For a controller, the value of the variable with its configuration (`api::kept_config`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_config: Option<String>,
}

impl Successor {
    /// Leaves it for the part of the service with this name, which the caller then signals.
    pub fn write(&self, state_dir: &Path, part: &str) -> io::Result<()> {
        state_file::replace(&file(state_dir, part), self)
    }

    /// Whether one was left for this part.
    pub fn is_left(state_dir: &Path, part: &str) -> bool {
        file(state_dir, part).exists()
    }

    /// Reads and removes the one that was left for this part.
    pub fn take(state_dir: &Path, part: &str) -> io::Result<Self> {
        let path = file(state_dir, part);
        let successor = state_file::read(&path);
        fs::remove_file(&path)?;
        successor
    }
}

fn file(state_dir: &Path, part: &str) -> PathBuf {
    state_dir.join(format!("restart-{part}.json"))
}

/// Becomes the program of the command. Its last argument is the number of a descriptor with the state, and the
/// descriptors in `kept` keep their numbers. Returns only on failure.
pub fn exec(command: &mut Command, state: &impl Serialize, kept: &[BorrowedFd<'_>]) -> io::Error {
    let file = match in_memory(state) {
        Ok(file) => file,
        Err(error) => return error,
    };
    command.arg(file.as_raw_fd().to_string());
    let mark = |flags| kept.iter().copied().chain([file.as_fd()]).try_for_each(|fd| rustix::io::fcntl_setfd(fd, flags));
    let error = match mark(FdFlags::empty()) {
        Ok(()) => logging::unlocked(|| limits::hand_on(command).exec()),
        Err(error) => error.into(),
    };
    // Programs started from now on must not inherit them. The descriptors are open, so this cannot fail.
    let _ = mark(FdFlags::CLOEXEC);
    error
}

/// A file in memory that contains a state.
pub fn in_memory(state: &impl Serialize) -> io::Result<File> {
    let mut file = File::from(memfd_create("state", MemfdFlags::CLOEXEC)?);
    file.write_all(&serde_json::to_vec(state)?)?;
    file.rewind()?;
    Ok(file)
}

/// The current arguments, for another program, ending with `option`. An earlier `option` and its value are left out.
pub fn same_arguments(program: &Path, option: &str) -> Command {
    let mut command = Command::new(program);
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == option {
            arguments.next();
        } else {
            command.arg(argument);
        }
    }
    command.arg(option);
    command
}

/// The state of the previous program in this process, from a descriptor that it has left open.
pub fn state<T: DeserializeOwned>(number: i32) -> io::Result<T> {
    let mut text = Vec::new();
    File::from(descriptor(number)?).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

/// A descriptor that the previous program has left open.
pub fn descriptor(number: i32) -> io::Result<OwnedFd> {
    adopt_descriptor(number).ok_or_else(|| io::Error::other(format!("descriptor {number} was not handed over")))
}
