//! Waits until descriptors can be read.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Waits until one of them can be read or has ended, at most for `timeout`; `None` waits for ever. Says which of them can.
///
/// After an interruption none can: a signal arrives through its descriptor, so that the caller looks again.
pub(super) fn wait<'a>(fds: impl IntoIterator<Item = BorrowedFd<'a>>, timeout: Option<Duration>) -> Vec<bool> {
    let mut polled: Vec<PollFd<'_>> = fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let _ = poll(&mut polled, timeout.and_then(timespec).as_ref());
    polled.iter().map(|fd| !fd.revents().is_empty()).collect()
}

/// The same of one descriptor.
pub(super) fn is_readable(fd: impl AsFd, timeout: Option<Duration>) -> bool {
    wait([fd.as_fd()], timeout) == [true]
}

/// `None`, for ever, of more than the kernel can count.
pub(super) fn timespec(time: Duration) -> Option<Timespec> {
    time.try_into().ok()
}
