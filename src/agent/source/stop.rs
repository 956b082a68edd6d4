//! A word from the loop to a fetch on another thread: end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use super::SourceError;
use proc::background::Bell;

/// Ends a fetch. Readable once it is set.
#[derive(Debug)]
pub struct Stop {
    flag: AtomicBool,
    bell: Bell,
}

impl Stop {
    /// One that is not set.
    ///
    /// # Errors
    /// When descriptors have run out.
    pub fn new() -> io::Result<Self> {
        Ok(Self { flag: AtomicBool::new(false), bell: Bell::new()? })
    }

    /// Ends the fetch, at its next step.
    pub fn set(&self) {
        self.flag.store(true, Ordering::Release);
        self.bell.ring();
    }

    /// Set together with it, for loops that look at it now and then.
    #[must_use]
    pub const fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    pub(super) fn check(&self) -> Result<(), SourceError> {
        if self.flag.load(Ordering::Acquire) { Err(SourceError::Stopped) } else { Ok(()) }
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
