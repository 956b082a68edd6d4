//! One piece of work that would block a loop: it runs on a separate thread, and a descriptor reports its end.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::{io, thread};

/// Work on a thread. Its descriptor is readable when the work has finished.
pub struct OneJob<T> {
    wake: UnixStream,
    outcome: Receiver<T>,
}

impl<T: Send + 'static> OneJob<T> {
    /// Starts the thread.
    ///
    /// # Errors
    /// When there are no descriptors or threads left.
    pub fn start(name: &str, work: impl FnOnce() -> T + Send + 'static) -> io::Result<Self> {
        let (wake, done) = UnixStream::pair()?;
        let (sender, outcome) = channel();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            // The loop may have given up waiting.
            let _ = sender.send(work());
            drop(done);
        })?;
        Ok(Self { wake, outcome })
    }

    /// The result; `None` if the thread has panicked.
    pub fn outcome(&self) -> Option<T> {
        self.outcome.recv().ok()
    }
}

impl<T> AsFd for OneJob<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
