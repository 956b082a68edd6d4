//! Repeats the push of a task's end until its receiver confirms it, if the submitter asked for that.
//!
//! | state | event | next state |
//! |---|---|---|
//! | finished, awaited | the time of the next push | pushed again; awaited, or given up if it has taken too long |
//! | finished, awaited | the receiver confirms this very push | received |
//! | received, given up | any | unchanged, until a retry makes another round of the task |
//!
//! Nothing is stored besides the record: the pauses grow with the time since the end, so a new controller continues where
//! the previous one stopped. Time within the life of this controller is measured by the monotonic clock, so a jump of the
//! wall clock does not make it give up a receiver.

use std::time::Duration;

use crate::Controller;
use crate::turn::effect::{Effect, Timer};
use base::{Acknowledgement, Mono, Now, PushAddress, TaskId, TaskRecord, TaskState, Wall, span};

/// Since when the confirmation of a task's end is awaited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    /// The time before this controller started, by the wall clock.
    before: Duration,
    since: Mono,
}

impl Awaited {
    fn waited(self, now: Now) -> Duration {
        self.before + now.mono.since(self.since)
    }
}

impl Controller {
    /// A task has finished, in this controller or before it started.
    pub(crate) fn expect_acknowledgement(&mut self, now: Now, task: TaskId) {
        if let Some(finished_at) = self.tasks.get(task).and_then(awaited_since) {
            self.tasks.awaited.insert(task, Awaited { before: now.wall.since(finished_at), since: now.mono });
            self.turn.set_timer(Timer::PushAgain(task), now.mono + self.settings.push_again_interval);
        }
    }

    /// The end of a task has been confirmed or given up, or the task is not finished any more.
    pub(crate) fn stop_pushing_again(&mut self, task: TaskId) {
        self.tasks.awaited.remove(&task);
        self.turn.clear_timer(&Timer::PushAgain(task));
    }

    /// How long the ends of this family may still be pushed again; it is kept until then.
    pub(crate) fn awaited_until(&self, now: Now, root: TaskId) -> Option<Wall> {
        let members = std::iter::once(root).chain(self.tasks.families.descendants(root));
        let waited = members.filter_map(|member| Some(self.tasks.awaited.get(&member)?.waited(now))).min()?;
        Some(now.wall + self.settings.push_again_max.saturating_sub(waited))
    }

    /// The receiver has not confirmed the end of a task in time.
    pub(crate) fn push_again(&mut self, now: Now, task: TaskId) {
        let (Some(record), Some(awaited)) = (self.tasks.get(task), self.tasks.awaited.get(&task)) else { return };
        let waited = awaited.waited(now);
        if waited >= self.settings.push_again_max {
            self.stop_pushing_again(task);
            self.turn.warn(format!(
                "the end of task {task} was not confirmed by its receiver in {}; given up",
                span(waited)
            ));
            return self.update(task, |record| record.acknowledgement = Acknowledgement::GivenUp(now.wall));
        }
        self.turn.emit(Effect::PushAgain(Box::new(record.clone())));
        // Each pause is as long as all earlier ones together, within bounds.
        let (first, longest) = (self.settings.push_again_interval, self.settings.push_again_interval_max);
        self.turn.set_timer(Timer::PushAgain(task), now.mono + waited.clamp(first, longest.max(first)));
    }

    /// Checks that exactly the awaited ends are pushed again.
    pub(crate) fn check_acknowledgements(&self) {
        for task in self.tasks.awaited.keys() {
            let is_awaited = self.tasks.get(*task).and_then(awaited_since).is_some();
            assert!(is_awaited, "the end of task {task} is pushed again, but no confirmation is awaited");
            assert!(self.turn.has_timer(&Timer::PushAgain(*task)), "the end of task {task} is never pushed again");
        }
        let is_awaited = |record: &&TaskRecord| awaited_since(record).is_some();
        let awaited = self.tasks.newest_before(None).filter(is_awaited).count();
        assert_eq!(awaited, self.tasks.awaited.len(), "the ends that are to be confirmed");
    }

    /// A receiver confirms a push. Only a push of the present end counts, and only from the address that it was pushed to.
    pub fn handle_acknowledgement(&mut self, now: Now, task: TaskId, pushes: u32, from: &PushAddress) {
        let of_the_end = |record: &TaskRecord| {
            record.pushes == pushes && record.address.as_deref() == Some(from) && awaited_since(record).is_some()
        };
        if self.tasks.get(task).is_some_and(of_the_end) {
            self.stop_pushing_again(task);
            self.update(task, |record| record.acknowledgement = Acknowledgement::Received(now.wall));
        }
    }
}

/// When a task finished whose end still awaits confirmation.
fn awaited_since(record: &TaskRecord) -> Option<Wall> {
    let wanted = record.policy.push_ack && record.address.is_some();
    match (&record.state, record.acknowledgement) {
        (TaskState::Finished { at, .. }, Acknowledgement::None) if wanted => Some(*at),
        _ => None,
    }
}
