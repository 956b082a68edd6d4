//! The tasks that wait for others: an index from each task and each job to the terms that it can still meet.
//!
//! An edge is one term of one waiting task. It is added once and removed once, each in O(log n), however many tasks a job
//! has: a term about a job names the job, and the waiting task's own id says which tasks of the job are meant, for ids are in
//! the order of submission. A term whose subject has ended is decided at once, so that a finished task, which may be
//! forgotten, has no edge.

use std::collections::BTreeSet;
use std::ops::Bound;

use base::{JobName, Outcome, Prior, TaskId, TaskRecord, Wanted};

/// A term of a waiting task, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge {
    pub(crate) dependant: TaskId,
    pub(crate) term: u16,
}

#[derive(Debug, Default)]
pub(crate) struct Dependants {
    of_task: BTreeSet<(TaskId, Edge)>,
    of_job: BTreeSet<(JobName, Wanted, Edge)>,
}

const FIRST: Edge = Edge { dependant: TaskId::MIN, term: 0 };
const LAST: Edge = Edge { dependant: TaskId::MAX, term: u16::MAX };

impl Dependants {
    pub(crate) fn is_empty(&self) -> bool {
        self.of_task.is_empty() && self.of_job.is_empty()
    }

    /// One of the waiting tasks.
    pub(crate) fn first(&self) -> Option<TaskId> {
        let of_task = self.of_task.first().map(|(_, edge)| edge.dependant);
        of_task.or_else(|| self.of_job.first().map(|(.., edge)| edge.dependant))
    }

    /// A task waits for its unmet terms.
    pub(crate) fn add(&mut self, record: &TaskRecord) {
        for term in &record.unmet {
            self.put(record, *term, true);
        }
    }

    /// A task does not wait for its unmet terms any more.
    pub(crate) fn remove(&mut self, record: &TaskRecord) {
        for term in &record.unmet {
            self.put(record, *term, false);
        }
    }

    /// One term of a task is decided.
    pub(crate) fn decide(&mut self, record: &TaskRecord, term: u16) {
        self.put(record, term, false);
    }

    fn put(&mut self, record: &TaskRecord, number: u16, stands: bool) {
        let Some(term) = record.after().get(usize::from(number)) else { return };
        let edge = Edge { dependant: record.id, term: number };
        match (&term.of, stands) {
            (Prior::Task(task), true) => drop(self.of_task.insert((*task, edge))),
            (Prior::Task(task), false) => drop(self.of_task.remove(&(*task, edge))),
            (Prior::Job(name), true) => drop(self.of_job.insert((name.clone(), term.wanted, edge))),
            (Prior::Job(name), false) => drop(self.of_job.remove(&(name.clone(), term.wanted, edge))),
        }
    }

    /// The next term that this end of a task decides, among those of tasks that are not younger than `until`.
    pub(crate) fn next_of_task(&self, task: TaskId, until: TaskId) -> Option<Edge> {
        let last = Edge { dependant: until, ..LAST };
        self.of_task.range((task, FIRST)..=(task, last)).next().map(|(_, edge)| *edge)
    }

    /// The next term about a job that the end of this one of its tasks decides by itself.
    pub(crate) fn next_of_job(&self, name: &JobName, ended: TaskId, outcome: Outcome, until: TaskId) -> Option<Edge> {
        let decides = |wanted: &Wanted| match wanted {
            Wanted::Success => outcome != Outcome::Succeeded,
            Wanted::Failure => outcome.is_failure(),
            Wanted::End => false,
        };
        let after = Edge { dependant: ended, ..LAST };
        let last = Edge { dependant: until.max(ended), ..LAST };
        Wanted::ALL.into_iter().filter(decides).find_map(|wanted| {
            let range = (Bound::Excluded((name.clone(), wanted, after)), Bound::Included((name.clone(), wanted, last)));
            self.of_job.range(range).next().map(|(.., edge)| *edge)
        })
    }

    /// The next term about a job that has no task left to wait for: all tasks that are older than the waiting one have
    /// finished. `oldest` is the oldest task that has not.
    pub(crate) fn next_without_tasks(&self, name: &JobName, oldest: Option<TaskId>) -> Option<Edge> {
        Wanted::ALL.into_iter().find_map(|wanted| {
            let range = (name.clone(), wanted, FIRST)..=(name.clone(), wanted, LAST);
            let edge = self.of_job.range(range).next().map(|(.., edge)| *edge)?;
            oldest.is_none_or(|oldest| edge.dependant <= oldest).then_some(edge)
        })
    }

    /// Whether a task waits for this one, or for its job.
    pub(crate) fn has(&self, record: &TaskRecord) -> bool {
        let of_job = |name: &JobName| {
            let wanted = |wanted| self.of_job.range((name.clone(), wanted, FIRST)..=(name.clone(), wanted, LAST));
            Wanted::ALL.into_iter().any(|one| wanted(one).next().is_some())
        };
        self.next_of_task(record.id, TaskId::MAX).is_some()
            || record.membership().is_some_and(|member| of_job(&member.name))
    }

    /// Checks the edges against the waiting tasks.
    pub(crate) fn sanity_check<'a>(&self, waiting: impl Iterator<Item = &'a TaskRecord>) {
        let mut counted = Self::default();
        waiting.for_each(|record| counted.add(record));
        assert_eq!(self.of_task, counted.of_task, "the terms about tasks");
        assert_eq!(self.of_job, counted.of_job, "the terms about jobs");
    }
}
