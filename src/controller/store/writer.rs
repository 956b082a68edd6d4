//! The thread that commits: an fsync may take tens of milliseconds, and the loop has other work.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::{CommitError, Store};
use crate::history::Feed;
use api::wire::requests::status::QueueView;
use base::TaskId;
use engine::Record;
use proc::background::Background;

/// The result of [`Writer::commit`], with its records. The thread that made the records also frees them, so that the allocator has
/// their memory at hand for its next records and need not search for it.
pub type Outcome = Result<Vec<Record>, (CommitError, Vec<Record>)>;

/// An order to the thread of the store.
#[derive(Debug)]
enum Order {
    Commit(Vec<Record>),
    /// This controller ends: another one may lead.
    Resign,
}

/// A message from the thread of the store.
#[derive(Debug)]
enum Told {
    Outcome(Outcome),
    Queue(QueueView),
}

/// A store on a thread of its own.
#[derive(Debug)]
pub struct Writer {
    thread: Background<Order, Told>,
    /// The new state of the queue that other machines share, if it has changed.
    queue: Option<QueueView>,
}

impl Writer {
    /// Moves the store to its thread, with the history that gets the rounds of each commit.
    ///
    /// # Errors
    /// When descriptors or threads have run out.
    pub fn start(mut store: Store, mut history: Option<Feed>) -> io::Result<Self> {
        let (mut forgotten, queue) = (Vec::new(), store.take_change());
        // Why the store takes nothing more, as far as only a commit of forgotten tasks has met it.
        let mut broken = None;
        let thread = Background::start("store", move |order, done: &dyn Fn(Told)| {
            let mut records = match order {
                Order::Commit(records) => records,
                Order::Resign => return store.resign(),
            };
            if let Some(error) = broken.take() {
                return done(Told::Outcome(Err((error, records))));
            }
            let kept = if history.is_some() { ends_of_forgotten(&records) } else { BTreeMap::new() };
            let is_kept = |record: &&Record| matches!(record, Record::Remove(task) if kept.contains_key(task));
            if let Some(history) = &mut history {
                history.before_commit(records.iter().filter(|record| !is_kept(record)));
            }
            match store.commit(records.iter().filter(|record| !is_kept(record)).chain(kept.values())) {
                Ok(()) => {
                    // First: a client that learns of the end may ask for the history at once.
                    if let Some(history) = &mut history {
                        history.after_commit(&mut records);
                    }
                    done(Told::Outcome(Ok(records)));
                    forgotten.extend(kept.into_keys().map(Record::Remove));
                }
                Err(error) => done(Told::Outcome(Err((error, records)))),
            }
            if let Some(history) = &mut history
                && !forgotten.is_empty()
            {
                history.before_commit(&forgotten);
                // If this fails, they are forgotten after the next commit. A controller that starts forgets them as well.
                match store.commit(&forgotten) {
                    Ok(()) => forgotten.clear(),
                    Err(error @ (CommitError::Fatal(_) | CommitError::Deposed(_))) => broken = Some(error),
                    Err(CommitError::Later(_) | CommitError::Unknown(_)) => {}
                }
            }
            store.tidy();
            if let Some(queue) = store.take_change() {
                done(Told::Queue(queue));
            }
        })?;
        Ok(Self { thread, queue })
    }

    /// Begins to commit these records: all of them or none. The descriptor wakes the loop when the commit has ended.
    pub fn commit(&self, records: Vec<Record>) {
        self.thread.give(Order::Commit(records));
    }

    /// Lets another controller lead after the last commit.
    pub fn resign(&self) {
        self.thread.give(Order::Resign);
    }

    /// The result of the oldest commit, once it is known.
    pub fn poll_outcome(&mut self) -> Option<Outcome> {
        loop {
            match self.thread.poll()? {
                Told::Outcome(outcome) => return Some(outcome),
                Told::Queue(queue) => self.queue = Some(queue),
            }
        }
    }

    /// The state of the queue that other machines share, once after each change.
    pub const fn take_queue(&mut self) -> Option<QueueView> {
        self.queue.take()
    }
}

/// The tasks that a commit both ends and forgets, as they have ended. The history gets a round after a commit that has its end. So
/// such a task is stored first, and forgotten by the next commit.
fn ends_of_forgotten(records: &[Record]) -> BTreeMap<TaskId, Record> {
    let forgotten =
        records.iter().filter_map(|record| if let Record::Remove(task) = record { Some(*task) } else { None });
    let forgotten: BTreeSet<TaskId> = forgotten.collect();
    let ends = records.iter().filter_map(|record| match record {
        Record::Round(_, task) if forgotten.contains(&task.id) => Some((task.id, Record::Put(task.clone()))),
        _ => None,
    });
    if forgotten.is_empty() { BTreeMap::new() } else { ends.collect() }
}

impl AsFd for Writer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.thread.as_fd()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.thread.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::task;
    use base::Round;

    #[test]
    fn a_task_that_ends_and_is_forgotten_in_one_commit_is_stored_first() {
        let [ended, old, going] = [1, 2, 3].map(task);
        let round = |task: &base::TaskRecord| Record::Round(Round(0), Box::new(task.clone()));
        let records = [round(&ended), Record::Remove(ended.id), Record::Remove(old.id), round(&going)];
        let kept: Vec<_> = ends_of_forgotten(&records).into_values().collect();
        assert!(matches!(&kept[..], [Record::Put(task)] if **task == ended), "{kept:?}");
        assert!(ends_of_forgotten(&records[2..]).is_empty());
    }
}
