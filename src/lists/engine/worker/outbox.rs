//! Results on their way to the server. Few messages are unacknowledged at once, so that the next message carries all results of the
//! time between; a result stays here until the server has stored it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::wire::{FromWorker, Name, RESULTS_BYTES_MAX, TaskResult};
use base::lists::RunningName;

/// Messages without acknowledgement, at most. A lost worker loses the results that wait behind them, so there is more than one.
const MESSAGES_MAX: usize = 4;

/// Results of one message.
const RESULTS_MAX: usize = 1000;

/// Results that the server has not stored, at most; then no further task starts.
const UNSTORED_MAX: usize = 10_000;

/// Bytes of their outputs, at most.
const UNSTORED_BYTES_MAX: usize = 64 << 20;

#[derive(Debug, Default)]
pub(super) struct Outbox {
    unsent: VecDeque<(RunningName, Arc<TaskResult>)>,
    /// Messages that are not acknowledged, by number.
    sent: BTreeMap<u64, (RunningName, Vec<Arc<TaskResult>>)>,
    numbers: u64,
    /// Results in both.
    count: usize,
    /// Bytes of outputs in both.
    bytes: usize,
}

fn bytes(result: &TaskResult) -> usize {
    result.out.len() + result.err.len()
}

impl Outbox {
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) const fn is_full(&self) -> bool {
        self.count >= UNSTORED_MAX || self.bytes >= UNSTORED_BYTES_MAX
    }

    pub(super) const fn count(&self) -> usize {
        self.count
    }

    pub(super) fn push(&mut self, list: RunningName, result: TaskResult) {
        self.count += 1;
        self.bytes += bytes(&result);
        self.unsent.push_back((list, Arc::new(result)));
    }

    /// The next message, if it may be sent.
    pub(super) fn next_message(&mut self) -> Option<FromWorker> {
        if self.sent.len() >= MESSAGES_MAX {
            return None;
        }
        let (list, first) = self.unsent.pop_front()?;
        let (mut size, mut results) = (bytes(&first), vec![first]);
        while results.len() < RESULTS_MAX
            && let Some((_, next)) = self.unsent.front().filter(|(other, _)| *other == list)
            && size + bytes(next) <= RESULTS_BYTES_MAX
        {
            size += bytes(next);
            results.extend(self.unsent.pop_front().map(|(_, result)| result));
        }
        self.numbers += 1;
        self.sent.insert(self.numbers, (list.clone(), results.clone()));
        Some(FromWorker::Results { list: Name(list), number: self.numbers, results })
    }

    /// The server has stored the results of a message.
    pub(super) fn acknowledged(&mut self, number: u64) {
        let results = self.sent.remove(&number).map(|(_, results)| results).unwrap_or_default();
        self.subtract(&results);
    }

    /// The connection is a new one: all messages that were on their way are sent again.
    pub(super) fn send_again(&mut self) {
        for (_, (list, results)) in std::mem::take(&mut self.sent).into_iter().rev() {
            results.into_iter().rev().for_each(|result| self.unsent.push_front((list.clone(), result)));
        }
    }

    /// Drops the results of a list that the worker has lost; returns their number.
    pub(super) fn drop_list(&mut self, list: &RunningName) -> usize {
        let mut dropped = Vec::new();
        self.unsent.retain(|(other, result)| {
            let is_kept = other != list;
            if !is_kept {
                dropped.push(Arc::clone(result));
            }
            is_kept
        });
        for (_, (_, results)) in self.sent.extract_if(.., |_, (other, _)| other == list) {
            dropped.extend(results);
        }
        self.subtract(&dropped);
        dropped.len()
    }

    fn subtract(&mut self, results: &[Arc<TaskResult>]) {
        self.count -= results.len();
        self.bytes -= results.iter().map(|result| bytes(result)).sum::<usize>();
    }

    /// The lists whose results are here.
    pub(super) fn lists(&self) -> BTreeSet<RunningName> {
        let unsent = self.unsent.iter().map(|(list, _)| list);
        unsent.chain(self.sent.values().map(|(list, _)| list)).cloned().collect()
    }
}
