//! JOB/QUERY, JOB/DETAILS and the orders about all tasks of a job.
//!
//! An order is a search through the tasks that the job has at that moment: it changes a slice of them in each turn.

mod results;

use super::{Answer, Code, Controller, Filter, Goal, Page, Query, Refusal, Reply, Ticket, Timer, words};
use crate::relations::jobs::Job;
use crate::relations::orders::Ordered;
use api::wire::requests::job::JobOrder;
use base::{JobName, Mono, Now};

impl Controller {
    /// The state of a job, or, with a time, parks the query until all its tasks have finished.
    pub(super) fn query_job(&mut self, ticket: Ticket, name: &JobName, wait_until: Option<Mono>) -> Answer {
        let has_ended = self.relations.job(name).is_none_or(Job::has_ended) && !self.is_of_open_graph(name);
        match wait_until.filter(|_| !has_ended) {
            None => self.job_reply(name).into(),
            Some(until) => self.park_query(ticket, Query::Job(name.clone()), until),
        }
    }

    /// The answer to a query of a job.
    pub(crate) fn job_reply(&self, name: &JobName) -> Reply {
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
        if let (Some(graph), JobOrder::Kill(said)) = (self.graphs.of_job(&job), &order) {
            let killed = self.kill_graph(now, graph.id, said.as_ref());
            return killed.map_or_else(Reply::Refused, |count| Reply::Concerned { count, warning: None }).into();
        }
        if self.relations.job(&job).is_none() {
            return Reply::Refused(Refusal::no_such_job(&job)).into();
        }
        if order == JobOrder::Retry {
            self.begin_anew(now, &job);
        }
        let ordered = Ordered::new(job, order, self.tasks.last_id());
        self.search(now, ticket, Filter::default(), Goal::Order(ordered))
    }

    /// The failures of a job count from here on, and if it was stopped, it goes on.
    fn begin_anew(&mut self, now: Now, name: &JobName) {
        self.forget_stop(name);
        let jobs = &mut self.relations.jobs;
        jobs.count_anew(name, now.wall);
        if let Some(job) = jobs.get_mut(name) {
            job.memo.stopped = None;
        }
        self.store_memo(name);
    }
}
