//! The end of a task is pushed until its receiver confirms it, if the submitter asked for that (design, section 6).
//!
//! | state | event | next state |
//! |---|---|---|
//! | finished, awaited | the time to push again | pushed again; awaited, or given up when it has taken too long |
//! | finished, awaited | the receiver confirms this very push | received |
//! | received, given up | anything | stays, until a retry makes another round of the task |
//!
//! Nothing is stored beside the record: the pauses grow with the time since the end, so a new controller goes on where the one
//! before it was. What this one has lived through itself is measured by the steady clock: when the other one jumps, no receiver
//! is given up.

use std::time::Duration;

use super::Controller;
use super::effect::{Effect, Timer};
use crate::types::{Acknowledgement, Mono, Now, PushAddress, TaskId, TaskRecord, TaskState, Wall};

/// Since when the end of a task is to be confirmed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Awaited {
    /// Before this controller, by the wall clock.
    before: Duration,
    since: Mono,
}

impl Awaited {
    fn waited(self, now: Now) -> Duration {
        self.before + now.mono.since(self.since)
    }
}

impl Controller {
    /// A task has finished, or had before this controller started.
    pub(super) fn expect_acknowledgement(&mut self, now: Now, task: TaskId) {
        if let Some(finished_at) = self.tasks.get(task).and_then(awaited_since) {
            self.awaited.insert(task, Awaited { before: now.wall.since(finished_at), since: now.mono });
            self.timers.set(Timer::PushAgain(task), now.mono + self.settings.push_again_interval);
        }
    }

    /// The end of a task is confirmed, given up, or no end any more.
    pub(super) fn stop_pushing_again(&mut self, task: TaskId) {
        self.awaited.remove(&task);
        self.timers.clear(&Timer::PushAgain(task));
    }

    /// Until when the ends of this family may be pushed again: so long it is not forgotten.
    pub(super) fn awaited_until(&self, now: Now, root: TaskId) -> Option<Wall> {
        let members = std::iter::once(root).chain(self.families.descendants(root));
        let waited = members.filter_map(|member| Some(self.awaited.get(&member)?.waited(now))).min()?;
        Some(now.wall + self.settings.push_again_max.saturating_sub(waited))
    }

    /// The receiver has not confirmed the end of a task.
    pub(super) fn push_again(&mut self, now: Now, task: TaskId) {
        let (Some(record), Some(awaited)) = (self.tasks.get(task), self.awaited.get(&task)) else { return };
        let waited = awaited.waited(now);
        if waited >= self.settings.push_again_max {
            self.stop_pushing_again(task);
            log::warn!("the end of task {task} was never confirmed by its receiver, for {waited:?}; given up");
            return self.tasks.update(task, |record| record.acknowledgement = Acknowledgement::GivenUp(now.wall));
        }
        self.tasks.effects.push_back(Effect::PushAgain(Box::new(record.clone())));
        // Each pause is as long as all before it, within bounds.
        let (first, longest) = (self.settings.push_again_interval, self.settings.push_again_interval_max);
        self.timers.set(Timer::PushAgain(task), now.mono + waited.clamp(first, longest.max(first)));
    }

    /// What is to be confirmed is pushed again, and nothing else.
    pub(super) fn check_acknowledgements(&self) {
        for task in self.awaited.keys() {
            let is_awaited = self.tasks.get(*task).and_then(awaited_since).is_some();
            assert!(is_awaited, "the end of task {task} is pushed again, but nobody has to confirm it");
            assert!(self.timers.is_set(&Timer::PushAgain(*task)), "the end of task {task} is never pushed again");
        }
        let is_awaited = |record: &&TaskRecord| awaited_since(record).is_some();
        let awaited = self.tasks.newest_before(None).filter(is_awaited).count();
        assert_eq!(awaited, self.awaited.len(), "the ends that are to be confirmed");
    }

    /// A receiver confirms a push. Only that of the present end counts, and only from where it was pushed to.
    pub fn handle_acknowledgement(&mut self, now: Now, task: TaskId, pushes: u32, from: &PushAddress) {
        let of_the_end = |record: &TaskRecord| {
            record.pushes == pushes && record.address.as_deref() == Some(from) && awaited_since(record).is_some()
        };
        if self.tasks.get(task).is_some_and(of_the_end) {
            self.stop_pushing_again(task);
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
