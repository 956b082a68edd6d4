//! TASK/QUERY: the record of a task, at once or when it has finished.

use super::{Answer, Code, Controller, Filter, Goal, Query, Refusal, Reply, Subject, Ticket, Timer, words};
use base::{Mono, Now, Phase, TaskId};

/// Maximum number of tasks with one given id that a query looks at without becoming a search.
const NAMESAKES_MAX: usize = 16;

impl Controller {
    /// An id is found at once, and so is a given id that few tasks have; any other query is a search.
    pub(super) fn query(&mut self, now: Now, ticket: Ticket, filter: Filter, wait_until: Option<Mono>) -> Answer {
        let found = match (filter.task_id(), filter.given_id()) {
            (Some(id), _) => {
                let Some(record) = id.and_then(|id| self.tasks.get(id)) else {
                    return Reply::Refused(Refusal::no_such_task(filter.shown_id())).into();
                };
                filter.matches(record).then_some((record.id, 1))
            }
            (None, Some(given_id)) if self.tasks.with_given_id(given_id, None).nth(NAMESAKES_MAX).is_none() => {
                let mut matches = self.tasks.with_given_id(given_id, None).filter(|record| filter.matches(record));
                matches.next().map(|newest| (newest.id, 1 + matches.count()))
            }
            (None, _) => return self.search(now, ticket, filter, Goal::Newest { found: None, wait_until }),
        };
        self.found(ticket, found, wait_until)
    }

    /// Answers a query, or parks it until the task has finished.
    pub(crate) fn found(&mut self, ticket: Ticket, found: Option<(TaskId, usize)>, wait_until: Option<Mono>) -> Answer {
        let Some((task, matches)) = found else {
            return Reply::Refused(Refusal::new(Code::InvalidTaskId, "no task matches all fields of the query")).into();
        };
        let Some(record) = self.tasks.get(task) else { unreachable!("task {task} was found and is gone") };
        match wait_until {
            Some(until) if record.phase() < Phase::Finished => {
                self.park_query(ticket, Query::Task(task, matches), until)
            }
            _ => Reply::Task { record: Box::new(record.clone()), matches }.into(),
        }
    }

    /// Parks a query until its subject, or until this time, whichever comes first.
    pub(super) fn park_query(&mut self, ticket: Ticket, query: Query, until: Mono) -> Answer {
        if let Some(obstacle) = self.readers.waits.obstacle(ticket.connection, self.settings.parked_max) {
            let message = format!("this query with {} cannot be parked: {obstacle}", words::WAIT);
            return Reply::Refused(Refusal::new(Code::LimitReached, message)).into();
        }
        self.readers.waits.park(ticket, query.subject(), query);
        self.turn.set_timer(Timer::QueryWait(ticket), until);
        Answer::Later
    }

    /// Answers the queries that wait for this end.
    pub(crate) fn answer_waiters(&mut self, subject: &Subject) {
        for ticket in self.readers.waits.of_subject(subject) {
            self.answer_waiter(ticket);
        }
    }

    /// The answer to a submit that waits for the end of its task.
    fn called(&self, task: TaskId, warning: Option<String>, duplicate: bool) -> Reply {
        match self.tasks.get(task) {
            Some(record) => Reply::Called { record: Box::new(record.clone()), warning, duplicate },
            None => Reply::Refused(Refusal::no_such_task(task)),
        }
    }

    /// Parks a submit that waits for the end of its task. Without room, it is answered at once: its task has been accepted.
    pub(super) fn park_submit(&mut self, ticket: Ticket, submitted: Reply, until: Mono) -> Answer {
        let Reply::Submitted { task, warning, duplicate } = submitted else { return submitted.into() };
        let has_finished = self.tasks.get(task).is_none_or(|record| record.phase() == Phase::Finished);
        if has_finished || self.readers.waits.obstacle(ticket.connection, self.settings.parked_max).is_some() {
            return self.called(task, warning, duplicate).into();
        }
        self.park_query(ticket, Query::Call { task, warning, duplicate }, until)
    }

    /// Ends the waits of submits that are not stored: the store is in trouble, and each of them is refused or held.
    pub(crate) fn end_unstored_calls(&mut self) -> Vec<(Ticket, Reply)> {
        let is_unstored =
            |subject: &Subject| matches!(subject, Subject::Task(task) if !self.tasks.submit_is_stored(*task));
        let waits = self.readers.waits.iter().filter(|(_, subject)| is_unstored(subject)).map(|(ticket, _)| ticket);
        let is_call = |ticket: &Ticket| matches!(self.readers.waits.get(*ticket), Some(Query::Call { .. }));
        let calls: Vec<_> = waits.filter(is_call).collect();
        let replies = calls.into_iter().filter_map(|ticket| Some((ticket, self.end_wait(ticket)?)));
        replies.collect()
    }

    /// A query has waited long enough.
    pub(crate) fn end_query_wait(&mut self, now: Now, ticket: Ticket) {
        if let Some(Query::Status(_)) = self.readers.waits.get(ticket) {
            self.look(now);
        }
        self.answer_waiter(ticket);
    }

    /// Answers a parked query with the present state.
    pub(crate) fn answer_waiter(&mut self, ticket: Ticket) {
        if let Some(reply) = self.end_wait(ticket) {
            self.turn.reply(ticket, reply);
        }
    }

    /// Ends the wait of a parked query; returns its answer.
    fn end_wait(&mut self, ticket: Ticket) -> Option<Reply> {
        let (_, query) = self.readers.waits.remove(ticket)?;
        self.turn.clear_timer(&Timer::QueryWait(ticket));
        let reply = match query {
            Query::Task(task, matches) => match self.tasks.get(task) {
                Some(record) => Reply::Task { record: Box::new(record.clone()), matches },
                None => Reply::Refused(Refusal::no_such_task(task)),
            },
            Query::Call { task, warning, duplicate } => self.called(task, warning, duplicate),
            Query::Job(name) => self.job_reply(&name),
            Query::Graph(graph) => self.graph_reply(graph),
            Query::Ends { job, cursor, limit, early } => self.results_reply(&job, cursor, limit, early),
            Query::Status(cursor) => self.status_since(Some(cursor)),
        };
        Some(reply)
    }
}
