//! Keeps the files of a service accessible to its user only. Files of its tools get the permissions that the service
//! was started with.

use std::sync::OnceLock;

use rustix::fs::Mode;
use rustix::process::umask;

/// No permissions for the group and for others.
const PRIVATE: Mode = Mode::RWXG.union(Mode::RWXO);

/// The umask that this process was started with, after it has been replaced.
static STARTED_WITH: OnceLock<Mode> = OnceLock::new();

/// Makes every file that this process creates from now on private. Call it before any thread is started.
pub fn keep_files_private() {
    let before = umask(PRIVATE);
    // A second call would remember our own umask.
    let _ = STARTED_WITH.set(before);
}

/// The umask that this process was started with. Call it before any thread is started: the only way to read it is to set it.
#[must_use]
pub fn umask_at_start() -> u32 {
    let started_with = umask_of_tools().unwrap_or_else(|| {
        let present = umask(PRIVATE);
        umask(present);
        present
    });
    started_with.bits()
}

/// The umask for a tool, if it differs from that of this process.
pub(crate) fn umask_of_tools() -> Option<Mode> {
    STARTED_WITH.get().copied()
}

/// Runs `act` with the umask that this process was started with. For single-threaded processes only.
pub fn as_started<T>(act: impl FnOnce() -> T) -> T {
    let Some(started_with) = umask_of_tools() else { return act() };
    let before = umask(started_with);
    let done = act();
    umask(before);
    done
}
