//! Parked queries: the task or the job that each waits for, and the number of queries of each connection.

use std::collections::{BTreeMap, BTreeSet};

use super::effect::{ConnectionId, Ticket};
use crate::types::{JobName, TaskId};

/// The share of all places that one connection may have, as a divisor: one client must not keep others from parking.
const SHARE: usize = 10;

/// The subject of a query.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Task(TaskId),
    Job(JobName),
}

/// The parked queries. Each of the three indexes follows from the others.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// The end that each query waits for, and the number of tasks that it matched.
    by_ticket: BTreeMap<Ticket, (Subject, usize)>,
    by_subject: BTreeSet<(Subject, Ticket)>,
    of_connection: BTreeMap<ConnectionId, usize>,
}

impl Waits {
    /// Why one more query of this connection cannot be parked, as a sentence.
    pub(super) fn obstacle(&self, connection: ConnectionId, max: usize) -> Option<String> {
        let share = (max / SHARE).max(1);
        let own = self.of_connection.get(&connection).copied().unwrap_or_default();
        if own >= share {
            return Some(format!("{own} of this connection are parked already, its tenth of PARKED_MAX"));
        }
        (self.by_ticket.len() >= max).then(|| format!("{max} are parked already (PARKED_MAX); ask again later"))
    }

    pub(super) fn park(&mut self, ticket: Ticket, subject: Subject, matches: usize) {
        let before = self.by_ticket.insert(ticket, (subject.clone(), matches));
        assert!(before.is_none(), "{ticket:?} waits twice");
        self.by_subject.insert((subject, ticket));
        *self.of_connection.entry(ticket.connection).or_default() += 1;
    }

    /// Ends a wait; returns its subject.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<(Subject, usize)> {
        let (subject, matches) = self.by_ticket.remove(&ticket)?;
        self.by_subject.remove(&(subject.clone(), ticket));
        if let Some(count) = self.of_connection.get_mut(&ticket.connection) {
            *count -= 1;
            if *count == 0 {
                self.of_connection.remove(&ticket.connection);
            }
        }
        Some((subject, matches))
    }

    /// The queries that wait for this end.
    pub(super) fn for_subject(&self, subject: &Subject) -> Vec<Ticket> {
        let range = (subject.clone(), Ticket::MIN)..=(subject.clone(), Ticket::MAX);
        self.by_subject.range(range).map(|(_, ticket)| *ticket).collect()
    }

    /// The queries of this connection.
    pub(super) fn of(&self, connection: ConnectionId) -> Vec<Ticket> {
        self.by_ticket.range(Ticket::of(connection)).map(|(ticket, _)| *ticket).collect()
    }

    /// All queries with their subjects.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Ticket, &Subject)> {
        self.by_ticket.iter().map(|(ticket, (subject, _))| (*ticket, subject))
    }

    pub(super) fn sanity_check(&self) {
        assert_eq!(self.by_ticket.len(), self.by_subject.len(), "the two indexes of parked queries differ");
        assert_eq!(
            self.by_ticket.len(),
            self.of_connection.values().sum::<usize>(),
            "the count of parked queries has drifted"
        );
        for (ticket, subject) in self.iter() {
            assert!(self.by_subject.contains(&(subject.clone(), ticket)), "{ticket:?} is not found by {subject:?}");
        }
    }
}
