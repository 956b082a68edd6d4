//! What is to be stored, and what must not be said before it is.
//!
//! | state | a turn's records | its promises |
//! |---|---|---|
//! | the store takes them | committed | leave |
//! | the store is in trouble (a full disk) | kept in memory | held, until a later commit takes all of it |
//!
//! The trouble is looked at again every second, by the commit of all that is kept.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::engine::controller::Record;
use crate::protocol::envelope::ReplyTo;
use crate::protocol::reply::Reply;
use crate::shell::store::{CommitError, Store};
use crate::types::{AgentId, Label, Mono, TaskId, TaskRecord};

const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// What leaves only after the commit of its turn.
#[derive(Debug)]
pub(super) enum Promise {
    Reply(ReplyTo, &'static str, Reply),
    Push(Box<TaskRecord>),
    PushAgain(Box<TaskRecord>),
}

/// What a turn has come to.
#[derive(Debug)]
pub(super) enum Settled {
    /// These promises may leave.
    Stored(Vec<Promise>),
    /// As before, and the store has been in trouble until now.
    Recovered(Vec<Promise>),
    /// The store is in trouble since this turn, for this reason; its promises come back with it.
    Trouble(String, Vec<Promise>),
    /// The store is still in trouble, and the promises are held.
    Held,
}

#[derive(Debug)]
pub(super) struct Ledger {
    store: Store,
    /// What is not committed: of this turn, and while the store is in trouble, of all turns since.
    kept: BTreeMap<Subject, Record>,
    held: Vec<Promise>,
    /// When to try again, while the store is in trouble.
    retry_at: Option<Mono>,
}

impl Ledger {
    pub(super) const fn new(store: Store) -> Self {
        Self { store, kept: BTreeMap::new(), held: Vec::new(), retry_at: None }
    }

    /// When a turn is due although nothing has come.
    pub(super) const fn deadline(&self) -> Option<Mono> {
        self.retry_at
    }

    /// Holds a promise until the store recovers.
    pub(super) fn hold(&mut self, promise: Promise) {
        self.held.push(promise);
    }

    /// Ends a turn.
    ///
    /// # Errors
    /// When nobody can say what the disk holds.
    pub(super) fn settle(
        &mut self,
        now: Mono,
        records: Vec<Record>,
        promises: Vec<Promise>,
    ) -> Result<Settled, CommitError> {
        // Only the latest record of a task, a gate or an agent matters.
        self.kept.extend(records.into_iter().map(|record| (Subject::of(&record), record)));
        if let Some(at) = self.retry_at {
            self.held.extend(promises);
            return if now < at { Ok(Settled::Held) } else { self.retry(now) };
        }
        if self.kept.is_empty() {
            return Ok(Settled::Stored(promises));
        }
        match self.store.commit(self.kept.values()) {
            Ok(()) => {
                self.kept.clear();
                Ok(Settled::Stored(promises))
            }
            Err(CommitError::Later(error)) => {
                self.retry_at = Some(now + RETRY_INTERVAL);
                Ok(Settled::Trouble(error.to_string(), promises))
            }
            Err(fatal) => Err(fatal),
        }
    }

    fn retry(&mut self, now: Mono) -> Result<Settled, CommitError> {
        match self.store.commit(self.kept.values()) {
            Ok(()) => {
                self.kept.clear();
                self.retry_at = None;
                Ok(Settled::Recovered(std::mem::take(&mut self.held)))
            }
            Err(CommitError::Later(_)) => {
                self.retry_at = Some(now + RETRY_INTERVAL);
                Ok(Settled::Held)
            }
            Err(fatal) => Err(fatal),
        }
    }
}

/// What a record is of.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Task(TaskId),
    Gate(Label),
    Agent(AgentId),
}

impl Subject {
    fn of(record: &Record) -> Self {
        match record {
            Record::Put(record) => Self::Task(record.id),
            Record::Remove(task) => Self::Task(*task),
            Record::Gate(name, _) => Self::Gate(name.clone()),
            Record::Drained(agent, _) => Self::Agent(agent.clone()),
        }
    }
}
