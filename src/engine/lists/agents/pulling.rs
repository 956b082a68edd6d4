//! Tasks that are pulled back while they wait: because their `until` has passed, or because another worker waits for their list.
//!
//! | step | answer | next |
//! |---|---|---|
//! | Holding | done | Looking |
//! | Looking | it waits; an agent has it; it has finished | Killing; it is released and goes on; its end |
//! | Killing | its end is a change of the task | |

use std::time::Duration;

use super::{Agents, Answer, Asked, Current, Held, Question, Refusal, Stage, State, Timer};
use crate::types::lists::RunningName;
use crate::types::{Now, TaskId};

/// The reason of a kill for another worker. It is stored with the task, and read after a restart.
pub(super) const TAKEN_BACK: &str = "its list is open again for other workers";

/// The reason of a kill for a passed `until`.
pub(super) const LATE: &str = "not started before its until";

/// Why a task is pulled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Its `until` has passed.
    Late,
    /// Another worker waits for its list.
    Wanted,
}

/// A pull that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pull {
    why: Why,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Holding,
    Looking,
    Killing,
}

/// The pull that has ended a task, if one has.
pub(super) fn why_of(reason: Option<&str>) -> Option<Why> {
    let reason = reason?;
    let is = |ours| reason.ends_with(ours);
    if is(LATE) {
        Some(Why::Late)
    } else if is(TAKEN_BACK) {
        Some(Why::Wanted)
    } else {
        None
    }
}

impl Held {
    /// Whether no agent has a task of it.
    pub(super) const fn is_idle(&self) -> bool {
        !matches!(&self.current, Some(Current { state: State::Started(_) | State::Reading(_), .. }))
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
            self.pull(list, Why::Late);
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
        let mut waiting: Option<(crate::types::Mono, RunningName)> = None;
        let mut refused = None;
        for (list, held) in &self.lists {
            match &held.current {
                Some(Current { state: State::Waiting { pull: Some(_), .. }, .. }) => return,
                Some(Current { state: State::Waiting { since, .. }, .. })
                    if waiting.as_ref().is_none_or(|(first, _)| since < first) =>
                {
                    waiting = Some((*since, list.clone()));
                }
                Some(Current { state: State::Refused, .. }) => refused = Some(list.clone()),
                _ => {}
            }
        }
        if let Some(list) = refused {
            return self.give_back(now, &list);
        }
        let Some((since, list)) = waiting else { return };
        let at = since + super::PULL_AFTER;
        if at <= now.mono {
            self.pull(&list, Why::Wanted);
        }
        self.timers.set(Timer::Pull, at.max(now.mono + super::PULL_AFTER));
    }

    fn pull(&mut self, list: &RunningName, why: Why) {
        if let Some(Current { state: State::Waiting { task, pull: pull @ None, .. }, .. }) = self.current(list) {
            *pull = Some(Pull { why, step: Step::Holding });
            let question = Question::Hold(*task, true);
            self.ask(Asked::List(list.clone()), question);
        }
    }

    /// The answer to a step of a pull.
    pub(super) fn pulled(&mut self, now: Now, list: &RunningName, answer: Answer) {
        let Some(Current { state: State::Waiting { task, pull, .. }, .. }) = self.current(list) else { return };
        let task: TaskId = *task;
        let Some(Pull { why, step }) = pull else { return };
        let why = *why;
        match (*step, answer) {
            // A refusal: it has finished, which is a change of the task, or the controller has no room for the answer.
            (Step::Holding, Answer::Done | Answer::Refused { .. }) => {
                *step = Step::Looking;
                self.ask(Asked::List(list.clone()), Question::Look(task));
            }
            (Step::Looking, Answer::Seen(sight)) if sight.stage == Stage::Waiting => {
                if sight.is_held {
                    *step = Step::Killing;
                    let reason = if why == Why::Late { LATE } else { TAKEN_BACK };
                    self.ask(Asked::List(list.clone()), Question::Kill(task, reason));
                } else {
                    *step = Step::Holding;
                    self.ask(Asked::List(list.clone()), Question::Hold(task, true));
                }
            }
            (Step::Looking, Answer::Seen(sight)) => {
                *pull = None;
                if sight.stage == Stage::Started {
                    self.ask(Asked::Order, Question::Hold(task, false));
                }
                self.take_sight(now, list, sight);
            }
            (Step::Looking, Answer::Refused { refusal: Refusal::Passing, .. }) => {
                self.ask(Asked::List(list.clone()), Question::Look(task));
            }
            _ => {}
        }
    }

    /// Opens the rest of a list again.
    pub(super) fn give_back(&mut self, _: Now, list: &RunningName) {
        self.journal.info(format!("{list} waits for an agent: the rest of it is open again"));
        self.forget(list);
        self.effects.push_back(super::Effect::GiveBack(list.clone()));
    }
}
