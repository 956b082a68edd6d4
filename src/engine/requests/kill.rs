//! TASK/KILL: a client ends a task. Other causes end a task in the same way.

use std::sync::Arc;

use super::{Controller, Effect, Published, Refusal, Remains, Reply, TaskEvent};
use crate::tasks::verdict;
use base::{Kill, KillCause, Now, Phase, RoundEnd, TaskId, TaskRecord};

impl Controller {
    pub(super) fn kill_request(&mut self, now: Now, task: TaskId, said: Option<Arc<str>>) -> Reply {
        if self.tasks.get(task).is_none() {
            return Reply::Refused(Refusal::no_such_task(task));
        }
        self.kill(now, task, &KillCause::Client(said));
        Reply::Done
    }

    /// Ends all descendants of a task whose run has ended (docs/sources/controller.md, 2.1). A loop instead of recursion, because
    /// chains may be long.
    pub(crate) fn end_children(&mut self, now: Now, task: TaskId) {
        for member in self.tasks.families.descendants(task) {
            self.kill_one(now, member, &KillCause::ParentEnded(task));
        }
    }

    /// Ends a task and, if that finishes it, all its descendants.
    pub(crate) fn kill(&mut self, now: Now, task: TaskId, cause: &KillCause) {
        self.kill_one(now, task, cause);
        if self.tasks.get(task).is_some_and(|record| record.phase() == Phase::Finished) {
            self.end_children(now, task);
        }
    }

    /// A task that is ending or has ended stays as it is, except that a kill of the task overrides a kill of its run.
    fn kill_one(&mut self, now: Now, task: TaskId, cause: &KillCause) {
        let Some(record) = self.tasks.get(task) else { return };
        let known = |kill: &Kill| kill.cause.ends_the_task() || !cause.ends_the_task();
        let over = match record.phase() {
            Phase::Waiting | Phase::Dispatched | Phase::Preparing | Phase::Running => false,
            // No process of the run is left to end, but another run must not follow.
            Phase::Ended => !cause.ends_the_task() || verdict::is_the_last_round(record),
            Phase::Finished => true,
        };
        if over || record.kill.as_deref().is_some_and(known) {
            return;
        }
        let (waits, round) = (record.phase() == Phase::Waiting, record.round);
        self.update(task, |record| record.kill = Some(Box::new(Kill { at: now.wall, cause: cause.clone() })));
        if self.tasks.get(task).is_some_and(TaskRecord::is_out_of_contact) {
            self.give_up(now, task, RoundEnd::Lost, Remains::Unknown(now.mono));
        } else if waits {
            // Only the waiting has to end.
            self.change(now, task, TaskEvent::Close { at: now.wall, outcome: cause.outcome() });
            self.finished(now, task);
        } else {
            self.turn.emit(Effect::Publish(Published::Kill(task, round)));
        }
    }
}
