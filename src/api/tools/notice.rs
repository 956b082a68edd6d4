//! Sends a signal when a name appears in a folder or disappears from it (`F_NOTIFY`). The only unsafe code of the tools.
//!
//! inotify is not used, because a user has 128 instances of it for all programs together, and one agent runs per core. `F_NOTIFY`
//! needs no more than one descriptor. Where the kernel or the file system does not support it, the periodic reads must do.

#![expect(unsafe_code, reason = "libc is called directly; every block says why it is sound")]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use nix::sys::signal::Signal;

/// The signal that is sent. It must be blocked or handled: by default it ends the process.
pub const SIGNAL: Signal = Signal::SIGUSR1;

// From `linux/fcntl.h`; the crate libc has only F_NOTIFY.
const F_SETSIG: libc::c_int = 10;
const DN_CREATE: u32 = 0x4;
const DN_DELETE: u32 = 0x8;
const DN_RENAME: u32 = 0x10;
const DN_MULTISHOT: u32 = 0x8000_0000;

/// Makes the kernel send [`SIGNAL`] to this process at each change of the names in this folder, as long as the descriptor is
/// open.
///
/// # Errors
/// When the kernel or the file system does not support it.
pub(super) fn request(folder: BorrowedFd<'_>) -> io::Result<()> {
    let changes = (DN_CREATE | DN_DELETE | DN_RENAME | DN_MULTISHOT).cast_signed();
    // The signal number is set first: without it, the first change would send SIGIO.
    for (command, argument) in [(F_SETSIG, SIGNAL as libc::c_int), (libc::F_NOTIFY, changes)] {
        // SAFETY: both commands take an integer.
        if unsafe { libc::fcntl(folder.as_raw_fd(), command, argument) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
