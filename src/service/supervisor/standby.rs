//! The way back when a supervisor has become another program and dies.
//!
//! Before the supervisor becomes the new program, the old one starts a process that watches the supervisor for a while. If the supervisor
//! dies in that time, the process becomes a supervisor itself. As after the death of any supervisor, it ends the remains and starts the
//! service again: waiting tasks are kept, running ones start again. This is very rare, because a controller has tried the new program by
//! then.

use std::fs::{self, File};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use api::service_file::Service;
use proc::files::draft::Draft;
use proc::files::file_copy::copy_into;
use proc::readable;
use proc::signals::with_clean_mask;

/// A supervisor that has lived this long as another program is taken to work.
const PROOF: Duration = Duration::from_secs(10);

/// The program of this process, even if its file has changed or gone.
const RUNNING: &str = "/proc/self/exe";

/// The messages of the supervisor while it is the new program.
const SAID: &str = "/proc/self/fd/2";

/// The copy of a program whose file was replaced while it ran, in STATE_DIR.
const COPY: &str = "program-before-restart";

/// The path of the copy of the program before a restart.
pub(super) fn program_before_restart(state_dir: &Path) -> PathBuf {
    state_dir.join(COPY)
}

/// A path of the program of this process: `path`, or a copy in STATE_DIR if another file has that name.
pub(super) fn lasting_program(path: &Path, state_dir: &Path) -> PathBuf {
    let is_there = || -> io::Result<bool> {
        let (ours, theirs) = (fs::metadata(RUNNING)?, fs::metadata(path)?);
        Ok((ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()))
    };
    if is_there().unwrap_or(false) {
        return path.to_owned();
    }
    let copy = program_before_restart(state_dir);
    match copy_running(state_dir, &copy) {
        Ok(()) => copy,
        Err(error) => {
            log::warn!("{} was replaced, and cannot be copied to {}: {error}", path.display(), copy.display());
            // This path starts it once more, but its own children cannot find its file.
            PathBuf::from(RUNNING)
        }
    }
}

fn copy_running(folder: &Path, copy: &Path) -> io::Result<()> {
    let draft = Draft::new(folder, COPY)?;
    copy_into(&File::open(RUNNING)?, draft.file())?;
    draft.file().set_permissions(fs::Permissions::from_mode(0o700))?;
    draft.publish(copy)
}

/// Starts the standby of this process, which waits in [`why_needed`].
pub(super) fn start(command: &mut Command, said: BorrowedFd<'_>) -> io::Result<Pid> {
    let supervisor = pidfd_open(getpid(), PidfdFlags::empty())?;
    let number = getpid().as_raw_nonzero().to_string();
    command.arg(number).arg("--detached").stdin(supervisor).stdout(Stdio::null()).stderr(said.try_clone_to_owned()?);
    Ok(Pid::from_child(&with_clean_mask(|| command.spawn())?))
}

/// Waits for the end of the supervisor with this number, whose pidfd is given. If it ended early and was not stopped, returns a sentence
/// about that.
#[must_use]
pub fn why_needed(state_dir: &Path, supervisor: u32, pidfd: BorrowedFd<'_>) -> Option<String> {
    // A supervisor that was stopped has removed the file.
    let is_needed = readable::is_readable(pidfd, Some(PROOF))
        && Service::read(state_dir).is_some_and(|service| service.pid == supervisor);
    is_needed.then(|| match last_words() {
        Some(said) => format!("the supervisor of the new program has ended: {said}"),
        None => "the supervisor of the new program has ended without a word, as after a signal".to_owned(),
    })
}

/// The last line that the supervisor wrote to its standard error, a file in memory that this process shares.
fn last_words() -> Option<String> {
    let said = fs::read(SAID).ok()?;
    let said = String::from_utf8_lossy(&said);
    // A panic prints its location on the line before its reason, and advice on the line after it.
    let line = said.lines().rfind(|line| !line.trim().is_empty() && !line.starts_with("note: "))?;
    Some(line.strip_prefix("llts: ").unwrap_or(line).to_owned())
}
