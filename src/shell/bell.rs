//! A descriptor by which one thread wakes another one that waits for several.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// Can be read from a ring on until it is silenced. A copy is the same bell.
#[derive(Clone, Debug)]
pub(super) struct Bell(Arc<OwnedFd>);

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        Self::with(EventfdFlags::empty())
    }

    /// One that has to be silenced as often as it was rung.
    pub(super) fn counting() -> io::Result<Self> {
        Self::with(EventfdFlags::SEMAPHORE)
    }

    fn with(flags: EventfdFlags) -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, flags | EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    pub(super) fn ring(&self) {
        // It fails when the counter is full; then it can be read anyway.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Comes before the look at what it rang for, so that nothing comes unheard in between. Whether it had rung.
    pub(super) fn silence(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 8]).is_ok()
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
