//! TASK/RETRY: another round of a task that has finished.

use super::{Code, Controller, Refusal, Reply};
use crate::relations::jobs::Job;
use crate::tasks::transition::Again;
use api::wire::requests::job;
use base::{Now, PhaseTimes, RoundEnd, TaskId, TaskState};

impl Controller {
    /// Starts another round of a finished task, with fresh budgets.
    pub(super) fn retry(&mut self, now: Now, task: TaskId) -> Result<Reply, Refusal> {
        if let Some(member) = self.known(task)?.membership()
            && let Some(stop) = self.relations.job(&member.name).and_then(Job::stopped)
        {
            return Err(job::stopped(&member.name, stop));
        }
        self.retry_one(now, task)?;
        self.dispatch(now);
        self.inform_if_waiting(task);
        Ok(Reply::Done)
    }

    /// Like [`Self::retry`], but without a look at its job and at the agents.
    pub(crate) fn retry_one(&mut self, now: Now, task: TaskId) -> Result<(), Refusal> {
        let record = self.known(task)?;
        let not_allowed = |why: String| Err(Refusal::new(Code::NotAllowed, why));
        let TaskState::Finished { .. } = record.state else {
            return not_allowed(format!("task {task} has not finished; only a finished task can be retried"));
        };
        if let Some(place) = record.place() {
            return not_allowed(format!(
                "task {task} is one of step {} of graph {}, which has taken its end into account; submit the graph again",
                place.step, place.graph
            ));
        }
        if let Some(at) = record.policy.end_before.filter(|at| *at <= now.wall) {
            return not_allowed(format!(
                "the end-before time of task {task} was {at}; submit it again with a later one"
            ));
        }
        if let Some(parent) = record.parent.and_then(|parent| self.tasks.get(parent))
            && parent.gets_no_children()
        {
            return not_allowed(format!("the parent {} of task {task} is ending or has ended; retry that", parent.id));
        }
        self.check_queue(&record.policy.needs, record.bytes())?;
        self.unkeep(task);
        self.stop_pushing_again(task);
        self.renew_terms(task);
        let times = PhaseTimes::default();
        self.again(now, task, Again { at: now.wall, end: RoundEnd::Retried, times, result: None, not_before: None });
        self.judge_terms(now, task);
        Ok(())
    }

    /// A finished task is reopened: its family is open again and must not be forgotten.
    fn unkeep(&mut self, task: TaskId) {
        let root = self.tasks.families.root(task);
        self.tasks.retained.reopened(task, root);
        self.tasks.families.reopened(task);
    }
}
