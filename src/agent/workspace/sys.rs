//! The system calls without a safe wrapper: leases. The only unsafe code of the work folder.

#![expect(unsafe_code, reason = "libc is called directly; every block says why it is sound")]

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::{Errno, Result};

/// Whether no other process has this file open or mapped, neither by its name nor by a descriptor that was passed on.
///
/// The kernel grants a write lease only under that condition. The lease is returned at once; call [`ignore_lease_breaks`]
/// before.
///
/// # Errors
/// When the file system does not support leases, or the file belongs to another user.
pub(super) fn is_open_here_only(file: BorrowedFd<'_>) -> Result<bool> {
    match set_lease(file, libc::F_WRLCK) {
        Ok(()) => set_lease(file, libc::F_UNLCK).map(|()| true),
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error),
    }
}

/// When another process opens a leased file, the kernel sends SIGIO, which by default ends the process.
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
