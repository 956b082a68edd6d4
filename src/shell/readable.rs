//! Waits until descriptors are readable.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Waits until one of them is readable or closed by its other end, at most for `timeout`; `None` waits without limit.
/// Returns which of them are.
///
/// After an interruption, none is reported: a signal arrives through its descriptor, so the caller waits again.
pub(super) fn wait<'a>(fds: impl IntoIterator<Item = BorrowedFd<'a>>, timeout: Option<Duration>) -> Vec<bool> {
    let mut polled: Vec<PollFd<'_>> = fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let _ = poll(&mut polled, timeout.and_then(timespec).as_ref());
    polled.iter().map(|fd| !fd.revents().is_empty()).collect()
}

/// As [`wait`], for one descriptor.
pub(super) fn is_readable(fd: impl AsFd, timeout: Option<Duration>) -> bool {
    wait([fd.as_fd()], timeout) == [true]
}

/// `None`, which means without limit, for a duration that the kernel cannot represent.
pub(super) fn timespec(time: Duration) -> Option<Timespec> {
    time.try_into().ok()
}
