//! The work of the thread that writes, and how far it is done.

use std::sync::atomic::AtomicU64;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::door::Address;
use crate::history::rules::Day;
use api::wire::requests::history::Question;
use base::{Incident, Round, TaskRecord};

/// Work for the thread.
#[derive(Debug)]
pub(super) enum Job {
    /// The first rounds since the last fetch have ended: [`Progress::ended`].
    Rounds,
    /// Something happened to the service.
    Incident(Incident),
    /// A question, which is answered from what was written before it.
    Ask(Asked),
    /// A reader could not read all of the file of a day.
    Damaged(Day),
    /// Everything is to be written.
    Flush,
    /// The last job.
    Stop,
}

/// A question, with the return address of its answer.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) to: Address,
    pub(super) kind: &'static str,
    pub(super) question: Box<Question>,
}

/// How far the rounds are written.
#[derive(Debug, Default)]
pub(super) struct Progress {
    written: Mutex<Written>,
    changed: Condvar,
    ended: Mutex<EndedRounds>,
    /// Rounds that were left out, because too many wait to be fetched.
    pub(super) left_out: AtomicU64,
}

/// Rounds that the thread has not fetched. They are no jobs, so that the end of a task wakes no other thread than those that report
/// it.
#[derive(Debug, Default)]
pub(super) struct EndedRounds {
    /// The number of the last round that ever was among them.
    pub(super) last: u64,
    pub(super) rounds: Vec<(Round, Box<TaskRecord>)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Written {
    /// The number of the last round that is written with all before it.
    up_to: u64,
    /// Whether nothing can be written at present.
    in_trouble: bool,
    has_ended: bool,
}

impl Progress {
    pub(super) fn ended(&self) -> MutexGuard<'_, EndedRounds> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All rounds up to this number are written, or nothing can be written.
    pub(super) fn set(&self, up_to: Option<u64>, in_trouble: bool) {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.up_to = up_to.unwrap_or(written.up_to);
        written.in_trouble = in_trouble;
        drop(written);
        self.changed.notify_all();
    }

    /// The thread has ended.
    pub(super) fn end(&self) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).has_ended = true;
        self.changed.notify_all();
    }

    pub(super) fn up_to(&self) -> u64 {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).up_to
    }

    /// Waits until this round is written, unless nothing can be.
    pub(super) fn wait_for(&self, number: u64) {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = |written: &mut Written| written.up_to < number && !written.in_trouble && !written.has_ended;
        drop(self.changed.wait_while(written, is_open));
    }
}
