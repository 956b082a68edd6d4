//! The files of a service are for its user only; those of its tools have the permissions that the starter of the service chose.

use std::sync::OnceLock;

use rustix::fs::Mode;
use rustix::process::umask;

/// Nothing for the group and nothing for others.
const PRIVATE: Mode = Mode::RWXG.union(Mode::RWXO);

/// The umask that this process was started with, once it has another one.
static STARTED_WITH: OnceLock<Mode> = OnceLock::new();

/// Makes every file that this process creates from here on private. Call it before any thread is started.
pub fn keep_files_private() {
    let before = umask(PRIVATE);
    // A second call would remember our own umask.
    let _ = STARTED_WITH.set(before);
}

/// The umask for a tool, if it is not that of this process.
pub(super) fn umask_of_tools() -> Option<Mode> {
    STARTED_WITH.get().copied()
}

/// Does something with the umask that this process was started with. For a process with one thread only.
pub(super) fn as_started<T>(act: impl FnOnce() -> T) -> T {
    let Some(started_with) = umask_of_tools() else { return act() };
    let before = umask(started_with);
    let done = act();
    umask(before);
    done
}
