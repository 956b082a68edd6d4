//! Waits until descriptors are readable.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Waits until one of them is readable or closed by its other end, at most for `timeout`; `None` waits without limit.
/// Returns which of them are.
///
/// After an interruption, none is reported: a signal arrives through its descriptor, so the caller waits again.
pub fn wait<'a>(fds: impl IntoIterator<Item = BorrowedFd<'a>>, timeout: Option<Duration>) -> Vec<bool> {
    let mut polled: Vec<PollFd<'_>> = fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let _ = poll(&mut polled, timeout.and_then(timespec).as_ref());
    polled.iter().map(|fd| !fd.revents().is_empty()).collect()
}

/// As [`wait`], for one descriptor.
pub fn is_readable(fd: impl AsFd, timeout: Option<Duration>) -> bool {
    wait([fd.as_fd()], timeout) == [true]
}

/// Descriptors to wait for together. A place in it stands for one of them.
#[derive(Default)]
pub struct PollSet<'a>(Vec<PollFd<'a>>);

impl<'a> PollSet<'a> {
    /// Waits for input.
    pub fn add(&mut self, fd: BorrowedFd<'a>) -> usize {
        self.add_for(fd, PollFlags::IN)
    }

    /// Waits for input, and for room for output.
    pub fn add_both(&mut self, fd: BorrowedFd<'a>) -> usize {
        self.add_for(fd, PollFlags::IN | PollFlags::OUT)
    }

    fn add_for(&mut self, fd: BorrowedFd<'a>, flags: PollFlags) -> usize {
        self.0.push(PollFd::from_borrowed_fd(fd, flags));
        self.0.len() - 1
    }

    /// Waits until one of them is ready, at most for `timeout`. After an interruption none is: a signal also arrives through its
    /// descriptor.
    pub fn wait(&mut self, timeout: Option<Duration>) {
        let _ = poll(&mut self.0, timeout.and_then(timespec).as_ref());
    }

    /// Whether the one at this place has input, or was closed by its other end.
    pub fn is_readable(&self, at: Option<usize>) -> bool {
        self.is(at, PollFlags::IN | PollFlags::HUP | PollFlags::ERR)
    }

    /// Whether the one at this place takes output.
    pub fn is_writable(&self, at: Option<usize>) -> bool {
        self.is(at, PollFlags::OUT)
    }

    fn is(&self, at: Option<usize>, wanted: PollFlags) -> bool {
        at.and_then(|at| self.0.get(at)).is_some_and(|fd| fd.revents().intersects(wanted))
    }
}

/// `None`, which means without limit, for a duration that the kernel cannot represent.
pub fn timespec(time: Duration) -> Option<Timespec> {
    time.try_into().ok()
}
