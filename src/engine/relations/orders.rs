//! The orders about all tasks of a job, while they are carried out: JOB/KILL, JOB/RETRY, JOB/HOLD and JOB/RELEASE.
//!
//! [`crate::readers::scan`] decides how much of an order a turn does.

use crate::Controller;
use api::wire::Refusal;
use api::wire::reply::Reply;
use api::wire::requests::job::JobOrder;
use base::{JobName, KillCause, Now, Outcome, Phase, TaskId, TaskState};

/// An order that is being carried out.
#[derive(Debug)]
pub(crate) struct Ordered {
    job: JobName,
    order: JobOrder,
    /// Whether this is the first pass, for waiting tasks only: the end of a running task would start a waiting one.
    only_waiting: bool,
    seen: Option<TaskId>,
    /// The youngest task that the order concerns.
    until: TaskId,
    count: usize,
    /// The number of refused changes, and the first refusal.
    refused: Option<(usize, Refusal)>,
}

impl Ordered {
    /// An order about the tasks of a job up to this one.
    pub(crate) const fn new(job: JobName, order: JobOrder, until: TaskId) -> Self {
        let only_waiting = matches!(order, JobOrder::Kill(_));
        Self { job, order, only_waiting, seen: None, until, count: 0, refused: None }
    }
}

impl Controller {
    /// Changes the next task of an order; true when there is none. Returns the task that was changed, too.
    pub(crate) fn order_next(&mut self, now: Now, ordered: &mut Ordered) -> (bool, Option<TaskId>) {
        let job = self.relations.job(&ordered.job);
        let next = job.and_then(|job| match ordered.order {
            JobOrder::Kill(_) | JobOrder::Hold(_) => job.next_unfinished(ordered.seen),
            JobOrder::Retry => job.next_unsuccessful(ordered.seen),
        });
        let Some(task) = next.filter(|task| *task <= ordered.until) else {
            if std::mem::take(&mut ordered.only_waiting) {
                ordered.seen = None;
                return (false, None);
            }
            return (true, None);
        };
        ordered.seen = Some(task);
        let is_changed = self.obey(now, task, ordered);
        ordered.count += usize::from(is_changed);
        (false, is_changed.then_some(task))
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
                self.hold_task(now, task, held);
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
    pub(crate) fn order_done(&mut self, now: Now, ordered: Ordered) -> Reply {
        self.dispatch(now);
        if self.queue.len() > 0 {
            self.turn.inform();
        }
        let warning = ordered.refused.map(|(count, refusal)| {
            let tasks = if count == 1 { "1 task was".to_owned() } else { format!("{count} tasks were") };
            format!("{tasks} left as before; the first because {refusal}")
        });
        Reply::Concerned { count: ordered.count, warning }
    }
}
