//! JOB/RESULTS: the ends of the tasks of a job after a cursor, at once or when there are some.
//!
//! A reader that waits gets the ends of a turn together. If the tasks had to queue, ends are gathered for a few milliseconds
//! ([`batch_delay`]); the end of the last task of the job is told at once.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Answer, Code, Controller, Job, Query, Refusal, Reply, Ticket, Timer, words};
use crate::readers::waits::Subject;
use crate::turn::batch_delay;
use api::wire::requests::job::results::{Cursor, EndRow, EndRows, ResultsAsk};
use base::{JobName, Now, Phase, TaskId};

impl Controller {
    /// The ends after a cursor, or, with a time, parks the request until there are some.
    pub(in crate::requests) fn job_results(&mut self, now: Now, ticket: Ticket, ask: ResultsAsk) -> Answer {
        let ResultsAsk { job, cursor, limit, wait, early } = ask;
        let Some(cursor) = cursor else {
            let Some((next, until)) = self.relations.end_logs.begin(now.mono, &job) else {
                let message = "too many jobs are being read; ask for the tasks by their ids, or again later";
                return Reply::Refused(Refusal::new(Code::LimitReached, message)).into();
            };
            self.turn.set_timer_earlier(Timer::EndLog(job), until);
            return Reply::Results(Box::new(EndRows { rows: Vec::new(), next, early })).into();
        };
        let limit = self.page_limit(limit);
        let until = now.mono + wait.unwrap_or_default();
        let Some(count) = self.relations.end_logs.ask(&job, cursor, until) else {
            let message = format!(
                "the ends of job {job} behind {} {cursor} are not known any more; begin without a cursor, and ask for the tasks by \
                 their ids",
                words::CURSOR
            );
            return Reply::Refused(Refusal::new(Code::InvalidTaskId, message)).into();
        };
        let first = self.relations.end_logs.ends_from(&job, cursor).next().map(|(task, _)| task);
        let delay = first.map(|task| self.gathering(&job, task)).unwrap_or_default();
        let is_full = count >= limit as u64;
        if wait.is_none() || is_full || first.is_some() && delay.is_zero() {
            return self.results_reply(&job, cursor, limit, early).into();
        }
        let answer = self.park_query(ticket, Query::Ends { job: job.clone(), cursor, limit, early }, until);
        if first.is_some() && matches!(answer, Answer::Later) {
            self.turn.set_timer_earlier(Timer::Ends(job), now.mono + delay);
        }
        answer
    }

    /// The ends after a cursor.
    pub(crate) fn results_reply(&self, job: &JobName, cursor: Cursor, limit: usize, early: bool) -> Reply {
        let (mut rows, mut next, mut seen) = (Vec::new(), cursor, BTreeSet::new());
        for (task, position) in self.relations.end_logs.ends_from(job, cursor).take(limit) {
            next.position = position;
            let record = self.tasks.get(task);
            // A task that was retried ends again; a task that has ended twice is shown once.
            if record.is_none_or(|record| record.phase() == Phase::Finished) && seen.insert(task) {
                rows.push(EndRow { task, record: record.map(|record| Box::new(record.clone())), next: position });
            }
        }
        Reply::Results(Box::new(EndRows { rows, next, early }))
    }

    /// A task has ended: the readers of its job are to learn it.
    pub(crate) fn log_end(&mut self, now: Now, task: TaskId) {
        if self.relations.end_logs.is_empty() {
            return;
        }
        let Some(record) = self.tasks.get(task) else { return };
        let Some(member) = record.membership() else { return };
        if self.relations.end_logs.add(&member.name, task) {
            let name = member.name.clone();
            if self.readers.waits.has(&Subject::Ends(name.clone())) {
                let at = now.mono + self.gathering(&name, task);
                self.turn.set_timer_earlier(Timer::Ends(name), at);
            }
        }
    }

    /// How long the end of a task may wait for others of its job.
    fn gathering(&self, job: &JobName, task: TaskId) -> Duration {
        let is_last = self.relations.job(job).is_none_or(Job::has_ended);
        let record = self.tasks.get(task).filter(|_| !is_last);
        record.map(batch_delay::of_many).unwrap_or_default()
    }

    /// The time of a log has passed, unless a client has asked for it since.
    pub(crate) fn drop_unread_log(&mut self, now: Now, job: JobName) {
        if let Some(until) = self.relations.end_logs.drop_unread(now.mono, &job) {
            self.turn.set_timer(Timer::EndLog(job), until);
        }
    }

    /// Checks that every log is eventually dropped, and that no reader waits for ends that are there.
    pub(crate) fn check_end_logs(&self) {
        self.relations.end_logs.sanity_check();
        for job in self.relations.end_logs.jobs() {
            assert!(self.turn.has_timer(&Timer::EndLog(job.clone())), "the log of job {job} is kept forever");
        }
        for (ticket, subject) in self.readers.waits.iter() {
            let Subject::Ends(job) = subject else { continue };
            let Some(Query::Ends { cursor, .. }) = self.readers.waits.get(ticket) else {
                panic!("{ticket:?} reads nothing")
            };
            let has_ends = self.relations.end_logs.ends_from(job, *cursor).next().is_some();
            assert!(!has_ends || self.turn.has_timer(&Timer::Ends(job.clone())), "{ticket:?} is not told of ends");
        }
    }
}
