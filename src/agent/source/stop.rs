//! The request of the loop to end a fetch on another thread.

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
    /// A stop that is not set.
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

    /// A flag that is set too, for loops that check it from time to time.
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
