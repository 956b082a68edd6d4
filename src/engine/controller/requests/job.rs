//! JOB/QUERY, JOB/DETAILS and the orders about all tasks of a job.
//!
//! An order is a search through the tasks that the job has at that moment: it changes a slice of them in each turn.

use super::{Answer, Code, Controller, Filter, Goal, Page, Refusal, Reply, Subject, Ticket, Timer, words};
use crate::protocol::requests::job::JobOrder;
use crate::types::{JobName, KillCause, Mono, Now, Outcome, Phase, TaskId, TaskState};

/// An order that is being carried out.
#[derive(Debug)]
pub(in crate::engine::controller) struct Ordered {
    job: JobName,
    order: JobOrder,
    /// Whether waiting tasks come first, which they do once: an end of a running one would start a waiting one.
    only_waiting: bool,
    seen: Option<TaskId>,
    /// The youngest task that is meant.
    until: TaskId,
    count: usize,
    /// The number of refused changes, and the first refusal.
    refused: Option<(usize, Refusal)>,
}

impl Controller {
    /// The state of a job, or, with a time, parks the query until all its tasks have finished.
    pub(super) fn query_job(&mut self, ticket: Ticket, name: &JobName, wait_until: Option<Mono>) -> Answer {
        let has_ended = self.tasks.jobs().get(name).is_none_or(|job| job.has_ended());
        match wait_until.filter(|_| !has_ended) {
            None => self.job_reply(name).into(),
            Some(until) => {
                if let Some(obstacle) = self.waits.obstacle(ticket.connection, self.settings.parked_max) {
                    let message = format!("this query with {} cannot be parked: {obstacle}", words::WAIT);
                    return Reply::Refused(Refusal::new(Code::LimitReached, message)).into();
                }
                self.waits.park(ticket, Subject::Job(name.clone()), 0);
                self.timers.set(Timer::QueryWait(ticket), until);
                Answer::Later
            }
        }
    }

    /// The answer to a query of a job.
    pub(in crate::engine::controller) fn job_reply(&self, name: &JobName) -> Reply {
        match self.job_view(name) {
            Some(view) => Reply::Job(Box::new(view)),
            None => Reply::Refused(Refusal::no_such_job(name)),
        }
    }

    pub(super) fn list_jobs(&mut self, now: Now, ticket: Ticket, page: Page) -> Answer {
        let goal = Goal::Jobs { page, limit: self.page_limit(page.limit) };
        self.search(now, ticket, Filter::default(), goal)
    }

    /// Begins to change all tasks that a job has.
    pub(super) fn order_job(&mut self, now: Now, ticket: Ticket, job: JobName, order: JobOrder) -> Answer {
        if self.tasks.jobs().get(&job).is_none() {
            return Reply::Refused(Refusal::no_such_job(&job)).into();
        }
        if order == JobOrder::Retry {
            self.begin_anew(now, &job);
        }
        let only_waiting = matches!(order, JobOrder::Kill(_));
        let (seen, until, count, refused) = (None, self.last_id, 0, None);
        let ordered = Ordered { job, order, only_waiting, seen, until, count, refused };
        self.search(now, ticket, Filter::default(), Goal::Order(ordered))
    }

    /// The failures of a job count from here on, and if it was stopped, it goes on.
    fn begin_anew(&mut self, now: Now, name: &JobName) {
        self.forget_stop(name);
        let jobs = self.tasks.jobs_mut();
        jobs.count_anew(name, now.wall);
        if let Some(job) = jobs.get_mut(name) {
            job.memo.stopped = None;
        }
        self.store_memo(name);
    }

    /// Changes the next task of an order; true when there is none. Returns whether a task was changed, too.
    pub(in crate::engine::controller) fn order_next(&mut self, now: Now, ordered: &mut Ordered) -> (bool, bool) {
        let job = self.tasks.jobs().get(&ordered.job);
        let next = job.and_then(|job| match ordered.order {
            JobOrder::Kill(_) | JobOrder::Hold(_) => job.next_unfinished(ordered.seen),
            JobOrder::Retry => job.next_unsuccessful(ordered.seen),
        });
        let Some(task) = next.filter(|task| *task <= ordered.until) else {
            if std::mem::take(&mut ordered.only_waiting) {
                ordered.seen = None;
                return (false, false);
            }
            return (true, false);
        };
        ordered.seen = Some(task);
        let is_changed = self.obey(now, task, ordered);
        ordered.count += usize::from(is_changed);
        (false, is_changed)
    }

    fn obey(&mut self, now: Now, task: TaskId, ordered: &mut Ordered) -> bool {
        let Some(record) = self.tasks.get(task) else { return false };
        match &ordered.order {
            JobOrder::Kill(_) if ordered.only_waiting && record.phase() != Phase::Waiting => false,
            JobOrder::Kill(said) => {
                let cause = KillCause::Client(said.clone());
                self.kill(now, task, &cause);
                true
            }
            JobOrder::Hold(hold) if record.held.is_some() != *hold => {
                let held = hold.then_some(now.wall);
                self.tasks.hold(now, task, held);
                true
            }
            JobOrder::Hold(_) => false,
            JobOrder::Retry => {
                match record.state {
                    TaskState::Finished { outcome: Outcome::Failed | Outcome::TimedOut | Outcome::Lost, .. } => {}
                    TaskState::Finished { outcome: Outcome::Skipped, .. } if self.may_start(record) => {}
                    _ => return false,
                }
                match self.retry_one(now, task) {
                    Ok(()) => true,
                    Err(refusal) => {
                        let refused = ordered.refused.get_or_insert((0, refusal));
                        refused.0 += 1;
                        false
                    }
                }
            }
        }
    }

    /// The answer to an order that has been carried out.
    pub(in crate::engine::controller) fn order_done(&mut self, now: Now, ordered: Ordered) -> Reply {
        self.dispatch(now);
        if self.tasks.queue().len() > 0 {
            self.inform();
        }
        let warning = ordered.refused.map(|(count, refusal)| {
            let tasks = if count == 1 { "1 task was".to_owned() } else { format!("{count} tasks were") };
            format!("{tasks} left as before; the first because {refusal}")
        });
        Reply::Concerned { count: ordered.count, warning }
    }
}
