//! Parked requests of clients: the subject that each waits for, and the number of requests of each connection.

use std::collections::{BTreeMap, BTreeSet};

use crate::turn::effect::{ConnectionId, Ticket};
use api::wire::requests::job::results::Cursor;
use base::{GraphId, JobName, TaskId};

/// The share of all places that one connection may have, as a divisor: one client must not keep others from parking.
const SHARE: usize = 10;

/// The event that a query waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// The end of a task.
    Task(TaskId),
    /// The end of a job.
    Job(JobName),
    /// The end of a graph.
    Graph(GraphId),
    /// Ends of tasks of a job.
    Ends(JobName),
    /// A change of the state of the service.
    Status,
}

/// A query that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    /// For the record of a task, the newest of this number of matches.
    Task(TaskId, usize),
    /// For the end of a task that this request has submitted: [`Reply::Called`](api::wire::reply::Reply::Called).
    Call {
        task: TaskId,
        warning: Option<String>,
        duplicate: bool,
    },
    Job(JobName),
    Graph(GraphId),
    /// For the ends of tasks of a job after this cursor, at most `limit` of them.
    Ends {
        job: JobName,
        cursor: Cursor,
        limit: usize,
        early: bool,
    },
    /// For the changes of the state of the service after this cursor.
    Status(Cursor),
}

impl Query {
    /// The event that it waits for.
    pub(crate) fn subject(&self) -> Subject {
        match self {
            Self::Task(task, _) | Self::Call { task, .. } => Subject::Task(*task),
            Self::Job(name) => Subject::Job(name.clone()),
            Self::Graph(graph) => Subject::Graph(*graph),
            Self::Ends { job, .. } => Subject::Ends(job.clone()),
            Self::Status(_) => Subject::Status,
        }
    }
}

/// The parked requests of one kind, each with its data. Each of the three indexes follows from the others.
#[derive(Debug)]
pub(crate) struct Waits<S, T> {
    /// The subject that each request waits for, and its data.
    by_ticket: BTreeMap<Ticket, (S, T)>,
    by_subject: BTreeSet<(S, Ticket)>,
    of_connection: BTreeMap<ConnectionId, usize>,
}

impl<S, T> Default for Waits<S, T> {
    fn default() -> Self {
        Self { by_ticket: BTreeMap::new(), by_subject: BTreeSet::new(), of_connection: BTreeMap::new() }
    }
}

impl<S: Clone + Ord + std::fmt::Debug, T> Waits<S, T> {
    /// Why one more request of this connection cannot be parked, as a sentence.
    pub(crate) fn obstacle(&self, connection: ConnectionId, max: usize) -> Option<String> {
        let share = (max / SHARE).max(1);
        let own = self.of_connection.get(&connection).copied().unwrap_or_default();
        if own >= share {
            return Some(format!("{own} of this connection are parked already, its tenth of PARKED_MAX"));
        }
        (self.by_ticket.len() >= max).then(|| format!("{max} are parked already (PARKED_MAX); ask again later"))
    }

    pub(crate) fn park(&mut self, ticket: Ticket, subject: S, data: T) {
        let before = self.by_ticket.insert(ticket, (subject.clone(), data));
        assert!(before.is_none(), "{ticket:?} waits twice");
        self.by_subject.insert((subject, ticket));
        *self.of_connection.entry(ticket.connection).or_default() += 1;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_ticket.is_empty()
    }

    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut T> {
        self.by_ticket.get_mut(&ticket).map(|(_, data)| data)
    }

    pub(crate) fn get(&self, ticket: Ticket) -> Option<&T> {
        self.by_ticket.get(&ticket).map(|(_, data)| data)
    }

    /// Ends a wait; returns its subject.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<(S, T)> {
        let (subject, data) = self.by_ticket.remove(&ticket)?;
        self.by_subject.remove(&(subject.clone(), ticket));
        if let Some(count) = self.of_connection.get_mut(&ticket.connection) {
            *count -= 1;
            if *count == 0 {
                self.of_connection.remove(&ticket.connection);
            }
        }
        Some((subject, data))
    }

    /// Whether a request waits for this subject.
    pub(crate) fn has(&self, subject: &S) -> bool {
        let range = (subject.clone(), Ticket::MIN)..=(subject.clone(), Ticket::MAX);
        self.by_subject.range(range).next().is_some()
    }

    /// The requests that wait for this subject.
    pub(crate) fn of_subject(&self, subject: &S) -> Vec<Ticket> {
        let range = (subject.clone(), Ticket::MIN)..=(subject.clone(), Ticket::MAX);
        self.by_subject.range(range).map(|(_, ticket)| *ticket).collect()
    }

    /// The requests of this connection.
    pub(crate) fn of(&self, connection: ConnectionId) -> Vec<Ticket> {
        self.by_ticket.range(Ticket::of(connection)).map(|(ticket, _)| *ticket).collect()
    }

    /// All requests with their subjects.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ticket, &S)> {
        self.by_ticket.iter().map(|(ticket, (subject, _))| (*ticket, subject))
    }

    pub(crate) fn sanity_check(&self) {
        assert_eq!(self.by_ticket.len(), self.by_subject.len(), "the two indexes of parked requests differ");
        assert_eq!(
            self.by_ticket.len(),
            self.of_connection.values().sum::<usize>(),
            "the count of parked requests has drifted"
        );
        for (ticket, subject) in self.iter() {
            assert!(self.by_subject.contains(&(subject.clone(), ticket)), "{ticket:?} is not found by {subject:?}");
        }
    }
}
