//! The thread that commits: an fsync may take tens of milliseconds, and the loop has other work.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::{CommitError, Store};
use crate::engine::controller::Record;
use crate::shell::background::Background;
use crate::shell::history::Feed;

/// The result of [`Writer::commit`].
pub type Outcome = Result<(), (CommitError, Vec<Record>)>;

/// A store on a thread of its own.
#[derive(Debug)]
pub struct Writer(Background<Vec<Record>, Outcome>);

impl Writer {
    /// Moves the store to its thread, with the history that gets the rounds of each commit.
    ///
    /// # Errors
    /// When descriptors or threads have run out.
    pub fn start(mut store: Store, mut history: Option<Feed>) -> io::Result<Self> {
        let thread = Background::start("store", move |records: Vec<Record>, done: &dyn Fn(Outcome)| {
            if let Some(history) = &mut history {
                history.before_commit(&records);
            }
            match store.commit(&records) {
                Ok(()) => {
                    // First: a client that learns of the end may ask for the history at once.
                    if let Some(history) = &mut history {
                        history.after_commit(records);
                    }
                    done(Ok(()));
                }
                Err(error) => done(Err((error, records))),
            }
            store.keep_log_short();
        })?;
        Ok(Self(thread))
    }

    /// Begins to commit these records: all of them or none. The descriptor wakes the loop when the commit has ended.
    pub fn commit(&self, records: Vec<Record>) {
        self.0.give(records);
    }

    /// The result of the oldest commit, once it is known.
    pub fn poll_outcome(&self) -> Option<Outcome> {
        self.0.poll()
    }
}

impl AsFd for Writer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.finish();
    }
}
