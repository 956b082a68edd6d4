//! Submits that the store did not take: each is refused, and leaves nothing behind, as if it had never come.

use std::collections::BTreeMap;

use super::Controller;
use super::effect::Effect;
use crate::types::{Now, Phase, Round, TaskId, TaskRecord};

/// For each unstored submit with a limit of failures: the limit of its job before.
pub(super) type Limits = BTreeMap<TaskId, Option<u32>>;

impl Controller {
    /// A submit could not be stored, and its submitter has not been told that it was accepted. True if the task is removed.
    /// A task that an agent or a family already has, or that has run, stays, and its submitter must wait; so does a task
    /// that existed before a `duplicate` of its submit came.
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

    /// As [`Self::handle_unstored`], for tasks that were submitted together: all of them are removed, or none.
    pub fn handle_many_unstored(&mut self, now: Now, tasks: &[TaskId], duplicates: &[usize]) -> bool {
        let new = || tasks.iter().enumerate().filter(|(index, _)| !duplicates.contains(index)).map(|(_, task)| *task);
        // What binds them to one another goes with them, the youngest first.
        let stays = |task| self.tasks.get(task).is_some_and(|record| !self.may_be_withdrawn(record));
        if new().any(stays) {
            return false;
        }
        for task in new().collect::<Vec<_>>().into_iter().rev() {
            self.withdraw(now, task);
        }
        duplicates.is_empty()
    }

    /// Whether a task can be removed as if it had never been submitted.
    fn may_be_withdrawn(&self, record: &TaskRecord) -> bool {
        let has_run = record.round > Round(0) || !record.past.is_empty() || record.is_out_of_contact();
        let has_relatives = self.families.has(record.id) || self.tasks.dependants().has(record);
        record.phase() == Phase::Waiting && !has_run && !has_relatives
    }

    /// The store is in trouble, and the submits that it did not take have been withdrawn.
    pub fn handle_withdrawn(&mut self, now: Now) {
        let mut jobs = Vec::new();
        self.tasks.effects.retain(|effect| match effect {
            // It may count tasks that are withdrawn, and its number may be used again.
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
        let Some(record) = self.tasks.remove(now, task) else { return };
        let Some(before) = self.limits.remove(&task) else { return };
        let Some(member) = record.membership() else { return };
        let is_of_job = |task: &TaskId| {
            let other = self.tasks.get(*task).and_then(TaskRecord::membership);
            other.is_some_and(|other| other.name == member.name)
        };
        // A later submit has replaced the limit of this one.
        let later = self.limits.range(task..).map(|(task, _)| *task).find(is_of_job);
        if let Some(later) = later {
            self.limits.insert(later, before);
        } else if let Some(job) = self.tasks.jobs_mut().get_mut(&member.name) {
            job.memo.fails_max = before;
            self.store_memo(&member.name);
        }
    }

    /// Submits are stored, and not withdrawn any more.
    pub(super) fn limits_are_stored(&mut self) {
        if !self.limits.is_empty() {
            self.limits.retain(|task, _| *task > self.stored_max);
        }
    }
}
