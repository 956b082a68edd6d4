//! Submits that the store did not take: each is refused, and leaves nothing behind, as if it had never come.

use std::collections::BTreeMap;

use super::Controller;
use super::agent::Slot;
use super::effect::Effect;
use super::transition::TaskEvent;
use crate::types::{KillCause, Now, Phase, Round, TaskId, TaskRecord, TaskState};

/// For each unstored submit with a limit of failures: the limit of its job before.
pub(super) type Limits = BTreeMap<TaskId, Option<u32>>;

/// The fate of a submit that could not be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Abandoned {
    /// Nothing is left of it.
    Withdrawn,
    /// An agent has a task of it, whose run is ended.
    Killed,
    /// A task of it has finished.
    HasRun,
}

impl Controller {
    /// The tasks of a submit could not be stored, and its submitter is refused. Each is removed, or ended if an agent has it
    /// already: a task whose submit was refused must not go on. `None` if the submitter must wait, because the tasks
    /// existed before (`duplicate`).
    pub(super) fn abandon_unstored(&mut self, now: Now, tasks: &[TaskId], duplicate: bool) -> Option<Abandoned> {
        if duplicate {
            return tasks.iter().all(|task| self.tasks.get(*task).is_none()).then_some(Abandoned::Withdrawn);
        }
        // What binds them to one another goes with them, the youngest first.
        tasks.iter().rev().map(|task| self.abandon(now, *task)).max().or(Some(Abandoned::Withdrawn))
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

    /// A run whose agent is told after the commit of the submit has not begun, because there is no such commit: the task waits again.
    /// Whatever would have ended that run, such as its time, must not be all that the submit leaves behind.
    fn take_back_untold(&mut self, now: Now, task: TaskId) {
        let Some(TaskState::Dispatched(run)) = self.tasks.get(task).map(|record| &record.state) else { return };
        if !run.after_commit || self.expiring.contains_key(&task) {
            return;
        }
        let agent = run.agent.clone();
        if self.agents.slot(&agent) == Some(Slot::Busy(task)) {
            self.agents.set_slot(&agent, Slot::Free);
            self.agents.set_given(&agent, None);
            self.void_list(now, &agent);
        }
        self.tasks.update(task, |record| record.kill = None);
        self.tasks.change(now, task, TaskEvent::Return);
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
