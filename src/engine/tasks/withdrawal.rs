//! Submits that the store did not take: each is refused, and leaves nothing behind, as if it had never come.

use std::collections::BTreeMap;

use super::transition::TaskEvent;
use crate::Controller;
use crate::fleet::agent::Slot;
use crate::relations::jobs::Job;
use crate::turn::effect::Effect;
use base::{JobName, KillCause, Now, Phase, Round, TaskId, TaskRecord};

/// The unstored submits with a limit of failures. A job stops only at a stored limit, because the end of its waiting tasks cannot
/// be taken back with a submit that is refused.
pub(crate) type Limits = BTreeMap<TaskId, Replaced>;

/// The limit of failures of a job before a submit.
#[derive(Debug)]
pub(crate) struct Replaced {
    pub(crate) job: JobName,
    pub(crate) before: Option<u32>,
}

/// The fate of a submit that could not be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Abandoned {
    /// Nothing is left of it.
    Withdrawn,
    /// An agent has one of its tasks; that run is ended.
    Killed,
    /// One of its tasks has finished.
    HasRun,
}

impl Controller {
    /// The tasks of a submit could not be stored, and its submitter is refused. Each is removed, or ended if an agent has it
    /// already: a task whose submit was refused must not go on. `None` if the submitter must wait, because the tasks
    /// existed before (`duplicate`).
    pub(crate) fn abandon_unstored(&mut self, now: Now, tasks: &[TaskId], duplicate: bool) -> Option<Abandoned> {
        if duplicate {
            return tasks.iter().all(|task| self.tasks.get(*task).is_none()).then_some(Abandoned::Withdrawn);
        }
        // The youngest goes first, so that the relations between the tasks go with them.
        tasks.iter().rev().map(|task| self.abandon(now, *task)).max().or(Some(Abandoned::Withdrawn))
    }

    /// Whether the submit of a task is stored.
    pub(crate) fn submit_is_stored(&self, task: TaskId) -> bool {
        self.tasks.submit_is_stored(task)
    }

    fn abandon(&mut self, now: Now, task: TaskId) -> Abandoned {
        self.take_back_untold(now, task);
        if self.handle_unstored(now, task, false) {
            return Abandoned::Withdrawn;
        }
        if self.tasks.get(task).is_some_and(|record| record.phase() == Phase::Finished) {
            return Abandoned::HasRun;
        }
        self.kill(now, task, &KillCause::Unstored);
        Abandoned::Killed
    }

    /// A run whose agent is told after the commit of the submit has not begun, because there is no such commit: the task waits
    /// again. A kill of that run, for example by its time limit, is dropped, so that the submit leaves no ended task behind.
    fn take_back_untold(&mut self, now: Now, task: TaskId) {
        if !self.is_untold(task) || self.fleet.is_expiring(task) {
            return;
        }
        let Some(agent) = self.tasks.get(task).and_then(|record| Some(record.assignment()?.agent.clone())) else {
            return;
        };
        if self.fleet.slot(&agent) == Some(Slot::Busy(task)) {
            self.fleet.set_slot(&agent, Slot::Free);
            self.fleet.end_given(&agent);
            self.void_list(now, &agent);
        }
        self.update(task, |record| record.kill = None);
        self.change(now, task, TaskEvent::Return);
    }

    /// A submit could not be stored, and its submitter has not been told that it was accepted. True if the task is removed.
    /// A task that an agent or a family already has, or that has run, stays; so does a task that existed before a `duplicate`
    /// of its submit came.
    pub fn handle_unstored(&mut self, now: Now, task: TaskId, duplicate: bool) -> bool {
        // A task that was submitted twice with the same key may have been removed already.
        let Some(record) = self.tasks.get(task) else { return true };
        if duplicate {
            // It may have been stored long ago, and promised to a client.
            return false;
        }
        let gone = self.may_be_withdrawn(record);
        if gone {
            self.withdraw(now, task);
        }
        gone
    }

    /// Whether a task can be removed as if it had never been submitted.
    fn may_be_withdrawn(&self, record: &TaskRecord) -> bool {
        let has_run = record.round > Round(0) || !record.past.is_empty() || record.is_out_of_contact();
        let has_relatives = self.tasks.families.has(record.id) || self.relations.dependants.has(record);
        record.phase() == Phase::Waiting && !has_run && !has_relatives
    }

    /// The store is in trouble, and the submits that it did not take have been withdrawn.
    pub fn handle_withdrawn(&mut self, now: Now) {
        let mut jobs = Vec::new();
        self.turn.effects.retain(|effect| match effect {
            // The state may count tasks that are withdrawn, and its number may be used again.
            Effect::JobStatus(status) => {
                jobs.push(status.view.name.clone());
                false
            }
            _ => true,
        });
        for name in jobs {
            self.handle_job_status_dropped(now.mono, &name);
        }
        // A withdrawn task may have held up those behind it.
        self.settle(now);
    }

    fn withdraw(&mut self, now: Now, task: TaskId) {
        self.remove_task(now, task);
        let Some(Replaced { job: name, before }) = self.tasks.unstored_limits.remove(&task) else { return };
        // A later submit has replaced the limit of this one.
        if let Some(later) =
            self.tasks.unstored_limits.range_mut(task..).map(|(_, later)| later).find(|later| later.job == name)
        {
            later.before = before;
        } else if let Some(job) = self.relations.job_mut(&name) {
            job.memo.fails_max = before;
            self.store_memo(&name);
            self.stop_at_limit(now, &name);
        }
    }

    /// Submits are stored, and not withdrawn any more.
    pub(crate) fn limits_are_stored(&mut self, now: Now) {
        while let Some(first) =
            self.tasks.unstored_limits.first_entry().filter(|first| *first.key() <= self.tasks.ids.stored_max)
        {
            let name = first.remove().job;
            self.stop_at_limit(now, &name);
        }
    }

    /// Stops a job that has reached its limit, unless the limit may be withdrawn.
    pub(crate) fn stop_at_limit(&mut self, now: Now, name: &JobName) {
        let is_reached = self.relations.job(name).is_some_and(Job::must_stop);
        if is_reached && self.tasks.unstored_limits.values().all(|replaced| replaced.job != *name) {
            self.stop_job(name);
            self.plan_relations(now);
        }
    }
}
