//! Tasks that are pulled back while they wait: because their `until` has passed, or because another worker waits for their list.

use std::time::Duration;

use super::{Agents, ClaimedList, Current, Life, Timer};
use base::Now;
use base::lists::RunningName;

/// The reason of a kill for another worker: stored with the task, and read after a restart.
pub(super) const TAKEN_BACK: &str = "its list is open again for other workers";

/// The reason of a kill for a passed `until`.
pub(super) const LATE: &str = "not started before its until";

/// The reason of the pull that has ended a task, if one has.
pub(super) fn pull_of(reason: Option<&str>) -> Option<&'static str> {
    let reason = reason?;
    [LATE, TAKEN_BACK].into_iter().find(|ours| reason.ends_with(ours))
}

impl ClaimedList {
    /// Whether no agent has a task of the list.
    pub(super) const fn is_idle(&self) -> bool {
        !matches!(&self.current, Some(Current { life: Life::Started(_) | Life::Reading(_), .. }))
    }
}

impl Agents {
    /// Sets the deadline of a waiting task: the end of the second `until`.
    pub(super) fn set_until(&mut self, now: Now, list: &RunningName, until: u64) {
        let end = until.saturating_add(1).saturating_mul(1_000_000);
        let left = Duration::from_micros(end.saturating_sub(now.wall.micros()));
        self.timers.set(Timer::Until(list.clone()), now.mono + left);
    }

    pub(super) fn pull_late(&mut self, now: Now, list: &RunningName) {
        let Some(Current { order, .. }) = self.current(list) else { return };
        let until = order.until;
        if super::seconds(now.wall) > until {
            self.pull(now, list, LATE);
        } else {
            // The clock was set back.
            self.set_until(now, list, until);
        }
    }

    /// Gives a list to another worker: the one that waits longest.
    pub(super) fn pull_for_others(&mut self, now: Now) {
        if !self.is_wanted {
            return;
        }
        let mut waiting: Option<(base::Mono, RunningName)> = None;
        let mut refused = None;
        for (list, held) in &self.lists {
            match &held.current {
                Some(Current { life: Life::Waiting { pull: Some(_), .. }, .. }) => return,
                Some(Current { life: Life::Waiting { since, .. }, .. })
                    if waiting.as_ref().is_none_or(|(first, _)| since < first) =>
                {
                    waiting = Some((*since, list.clone()));
                }
                Some(Current { life: Life::Refused, .. }) => refused = Some(list.clone()),
                _ => {}
            }
        }
        if let Some(list) = refused {
            return self.give_back(now, &list);
        }
        let Some((since, list)) = waiting else { return };
        let at = since + super::PULL_AFTER;
        if at <= now.mono {
            self.pull(now, &list, TAKEN_BACK);
        }
        self.timers.set(Timer::Pull, at.max(now.mono + super::PULL_AFTER));
    }

    fn pull(&mut self, now: Now, list: &RunningName, reason: &'static str) {
        if let Some(current) = self.current(list) {
            let next = current.life.pull(reason);
            self.follow(now, list, next);
        }
    }

    /// Opens the rest of a list again.
    pub(super) fn give_back(&mut self, _: Now, list: &RunningName) {
        self.journal.info(format!("{list} waits for an agent: the rest of it is open again"));
        self.forget(list);
        self.effects.push_back(super::Effect::GiveBack(list.clone()));
    }
}
