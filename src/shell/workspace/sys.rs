//! The system calls for which there is no safe wrapper: leases. The only unsafe code of the work folder.

#![expect(unsafe_code, reason = "libc is called directly; every block says why it is sound")]

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::{Errno, Result};

/// Whether nobody but us has this file open or mapped: neither under its name nor by a descriptor that was handed on.
///
/// The kernel grants a write lease on those terms. It is given back at once; call [`ignore_lease_breaks`] before.
///
/// # Errors
/// When the file system knows no leases, or the file is not ours.
pub(super) fn is_open_here_only(file: BorrowedFd<'_>) -> Result<bool> {
    match set_lease(file, libc::F_WRLCK) {
        Ok(()) => set_lease(file, libc::F_UNLCK).map(|()| true),
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whoever opens a file that is leased makes the kernel send SIGIO, which ends a process that does not expect it.
pub(super) fn ignore_lease_breaks() {
    // SAFETY: SIG_IGN installs no handler.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
}

fn set_lease(file: BorrowedFd<'_>, kind: libc::c_int) -> Result<()> {
    // SAFETY: the call takes three integers.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) };
    if result == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}
