//! The end of a task is pushed until its receiver confirms it, if the submitter asked for that (design, section 6).
//!
//! | state | event | next state |
//! |---|---|---|
//! | finished, awaited | the time to push again | pushed again; awaited, or given up when it has taken too long |
//! | finished, awaited | the receiver confirms this very push | received |
//! | received, given up | anything | stays, until a retry makes another round of the task |
//!
//! Nothing is kept beside the record: the pauses grow with the time since the end, so a new controller goes on where the one
//! before it was.

use super::Controller;
use super::effect::{Effect, Timer};
use crate::types::{Acknowledgement, Now, PushAddress, TaskId, TaskRecord, TaskState, Wall};

impl Controller {
    /// A task has finished, or had before this controller started.
    pub(super) fn expect_acknowledgement(&mut self, now: Now, task: TaskId) {
        if self.tasks.get(task).is_some_and(|record| awaited_since(record).is_some()) {
            self.timers.set(Timer::PushAgain(task), now.mono + self.settings.push_again_interval);
        }
    }

    /// Until when the ends of this family may be pushed again: so long it is not forgotten.
    pub(super) fn awaited_until(&self, root: TaskId) -> Option<Wall> {
        let members = std::iter::once(root).chain(self.families.descendants(root));
        let since = members.filter_map(|member| awaited_since(self.tasks.get(member)?)).max();
        since.map(|at| at + self.settings.push_again_max)
    }

    /// The receiver has not confirmed the end of a task.
    pub(super) fn push_again(&mut self, now: Now, task: TaskId) {
        let Some(record) = self.tasks.get(task) else { return };
        let Some(finished_at) = awaited_since(record) else { return };
        let waited = now.wall.since(finished_at);
        if waited >= self.settings.push_again_max {
            log::warn!("the end of task {task} was never confirmed by its receiver, for {waited:?}; given up");
            return self.tasks.update(task, |record| record.acknowledgement = Acknowledgement::GivenUp(now.wall));
        }
        self.tasks.effects.push_back(Effect::PushAgain(Box::new(record.clone())));
        // Each pause is as long as all before it, within bounds.
        let (first, longest) = (self.settings.push_again_interval, self.settings.push_again_interval_max);
        self.timers.set(Timer::PushAgain(task), now.mono + waited.clamp(first, longest.max(first)));
    }

    /// A receiver confirms a push. Only that of the present end counts, and only from where it was pushed to.
    pub fn handle_acknowledgement(&mut self, now: Now, task: TaskId, pushes: u32, from: &PushAddress) {
        let of_the_end = |record: &TaskRecord| {
            record.pushes == pushes && record.address.as_deref() == Some(from) && awaited_since(record).is_some()
        };
        if self.tasks.get(task).is_some_and(of_the_end) {
            self.timers.clear(&Timer::PushAgain(task));
            self.tasks.update(task, |record| record.acknowledgement = Acknowledgement::Received(now.wall));
        }
    }
}

/// When a task finished whose end is to be confirmed and is not.
fn awaited_since(record: &TaskRecord) -> Option<Wall> {
    let wanted = record.policy.push_ack && record.address.is_some();
    match (&record.state, record.acknowledgement) {
        (TaskState::Finished { at, .. }, Acknowledgement::None) if wanted => Some(*at),
        _ => None,
    }
}
