//! The store's end of the history: the rounds of each commit, and how far they are written.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use super::jobs::{Job, Progress};
use base::TaskId;
use engine::Record;

/// Maximum number of rounds that the thread of the history has not fetched, with the whole record of each.
const ENDED_MAX: usize = 50_000;

/// See the [module](self).
#[derive(Debug)]
pub struct Feed {
    jobs: Sender<Job>,
    progress: Arc<Progress>,
    /// The number of the last round that was sent.
    sent: u64,
    /// The rounds that may not be written yet, by their numbers.
    open: VecDeque<(u64, TaskId)>,
}

impl Feed {
    pub(super) const fn new(jobs: Sender<Job>, progress: Arc<Progress>) -> Self {
        Self { jobs, progress, sent: 0, open: VecDeque::new() }
    }

    /// Called before a commit: the rounds of the tasks that it forgets must be written first, because the store cannot provide them
    /// again.
    pub fn before_commit<'a>(&mut self, records: impl IntoIterator<Item = &'a Record>) {
        let forgotten = |record: &Record| if let Record::Remove(task) = record { Some(*task) } else { None };
        let forgotten: BTreeSet<TaskId> = records.into_iter().filter_map(forgotten).collect();
        if forgotten.is_empty() {
            return;
        }
        self.drop_written();
        if self.open.is_empty() {
            return;
        }
        let last = self.open.iter().rev().find(|(_, task)| forgotten.contains(task));
        if let Some((number, _)) = last.copied() {
            let _ = self.jobs.send(Job::Flush);
            self.progress.wait_for(number);
        }
    }

    /// Called after a commit: its rounds go to the history.
    pub fn after_commit(&mut self, records: &mut Vec<Record>) {
        let mut rounds = Vec::new();
        for record in records.extract_if(.., |record| matches!(record, Record::Round(..))) {
            if let Record::Round(round, task) = record {
                rounds.push((round, task));
            }
        }
        if rounds.is_empty() {
            return;
        }
        self.drop_written();
        let mut ended = self.progress.ended();
        if ended.rounds.len() > ENDED_MAX {
            self.progress.left_out.fetch_add(rounds.len() as u64, Ordering::Relaxed);
            return;
        }
        let is_first = ended.rounds.is_empty();
        for (_, task) in &rounds {
            self.sent += 1;
            self.open.push_back((self.sent, task.id));
        }
        ended.last = self.sent;
        ended.rounds.append(&mut rounds);
        drop(ended);
        if is_first {
            let _ = self.jobs.send(Job::Rounds);
        }
    }

    fn drop_written(&mut self) {
        let up_to = self.progress.up_to();
        while self.open.front().is_some_and(|(number, _)| *number <= up_to) {
            self.open.pop_front();
        }
    }
}
