//! The thread that commits: a disk may take tens of milliseconds for an fsync, and the loop has other things to do.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use super::{CommitError, Store};
use crate::engine::controller::Record;
use crate::shell::bell::Bell;

/// What has become of the records of [`Writer::commit`].
pub type Outcome = Result<(), (CommitError, Vec<Record>)>;

/// A store on a thread of its own.
#[derive(Debug)]
pub struct Writer {
    /// `None` once the thread has been told to end.
    commits: Option<Sender<Vec<Record>>>,
    outcomes: Receiver<Outcome>,
    done: Bell,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Moves the store to its thread.
    ///
    /// # Errors
    /// When descriptors or threads have run out.
    pub fn start(mut store: Store) -> io::Result<Self> {
        let done = Bell::new()?;
        let (commits, incoming) = mpsc::channel::<Vec<Record>>();
        let (outgoing, outcomes) = mpsc::channel();
        let bell = RungAtTheEnd(done.clone());
        let thread = std::thread::Builder::new().name("store".into()).spawn(move || {
            for records in incoming {
                let outcome = store.commit(&records).map_err(|error| (error, records));
                if outgoing.send(outcome).is_err() {
                    return;
                }
                bell.0.ring();
                store.keep_log_short();
            }
        })?;
        Ok(Self { commits: Some(commits), outcomes, done, thread: Some(thread) })
    }

    /// Begins to commit these: all of them or none. Whoever waits for the descriptor is woken when that is done.
    pub fn commit(&self, records: Vec<Record>) {
        if let Some(commits) = &self.commits {
            // The thread ends before us only by a panic, which `poll_outcome` tells.
            let _ = commits.send(records);
        }
    }

    /// What the oldest commit has come to, once that is known.
    pub fn poll_outcome(&self) -> Option<Outcome> {
        self.done.silence();
        match self.outcomes.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(mpsc::TryRecvError::Empty) => None,
            Err(mpsc::TryRecvError::Disconnected) => unreachable!("the thread of the store has panicked"),
        }
    }
}

/// Wakes whoever waits for an outcome, also by the end of the thread.
struct RungAtTheEnd(Bell);

impl Drop for RungAtTheEnd {
    fn drop(&mut self) {
        self.0.ring();
    }
}

impl AsFd for Writer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.commits = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread of the store has panicked");
        }
    }
}
