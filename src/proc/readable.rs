//! Waits until descriptors are readable.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Waits until one of the descriptors is readable or closed by its peer, for at most `timeout`; `None` waits without
/// limit. Returns which of them are.
///
/// After an interruption, none is reported: a signal arrives through its own descriptor, so the caller waits again.
pub fn wait<'a>(fds: impl IntoIterator<Item = BorrowedFd<'a>>, timeout: Option<Duration>) -> Vec<bool> {
    let mut polled: Vec<PollFd<'_>> = fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let _ = poll(&mut polled, timeout.and_then(timespec).as_ref());
    polled.iter().map(|fd| !fd.revents().is_empty()).collect()
}

/// As [`wait`], for one descriptor.
pub fn is_readable(fd: impl AsFd, timeout: Option<Duration>) -> bool {
    wait([fd.as_fd()], timeout) == [true]
}

/// Descriptors to wait for together. The methods that add one return its index.
#[derive(Default)]
pub struct PollSet<'a>(Vec<PollFd<'a>>);

impl<'a> PollSet<'a> {
    /// Adds a descriptor to wait for input.
    pub fn add(&mut self, fd: BorrowedFd<'a>) -> usize {
        self.add_for(fd, PollFlags::IN)
    }

    /// Adds a descriptor to wait for input and for room for output.
    pub fn add_both(&mut self, fd: BorrowedFd<'a>) -> usize {
        self.add_for(fd, PollFlags::IN | PollFlags::OUT)
    }

    fn add_for(&mut self, fd: BorrowedFd<'a>, flags: PollFlags) -> usize {
        self.0.push(PollFd::from_borrowed_fd(fd, flags));
        self.0.len() - 1
    }

    /// Waits until one of them is ready, for at most `timeout`. After an interruption none is: a signal arrives through
    /// its own descriptor.
    pub fn wait(&mut self, timeout: Option<Duration>) {
        let _ = poll(&mut self.0, timeout.and_then(timespec).as_ref());
    }

    /// Whether the descriptor at this index has input, or was closed by its peer.
    pub fn is_readable(&self, at: Option<usize>) -> bool {
        self.is(at, PollFlags::IN | PollFlags::HUP | PollFlags::ERR)
    }

    /// Whether the descriptor at this index takes output.
    pub fn is_writable(&self, at: Option<usize>) -> bool {
        self.is(at, PollFlags::OUT)
    }

    fn is(&self, at: Option<usize>, wanted: PollFlags) -> bool {
        at.and_then(|at| self.0.get(at)).is_some_and(|fd| fd.revents().intersects(wanted))
    }
}

/// A duration for the kernel; `None`, which means without limit, if the kernel cannot represent it.
pub fn timespec(time: Duration) -> Option<Timespec> {
    time.try_into().ok()
}
