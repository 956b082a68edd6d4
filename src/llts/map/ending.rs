//! How a map ends before its input does: by the job, by the user, or because the terminal has closed.
//!
//! | | lines | tasks that wait | tasks that run | prints |
//! |---|---|---|---|---|
//! | stopped: the service accepts no more | none | end as the service decides | awaited | yes |
//! | interrupted | none | held, and killed when none runs | awaited | yes |
//! | killed: interrupted again, or no reader is left | none | killed | killed | yes |
//! | detached: the terminal has closed | all | left to the service | left to the service | no |

use std::time::Duration;

use super::{Effect, Map};
use base::Mono;

/// The time between two looks at the running tasks of an interrupted map, unless one ends before: a task that waits for
/// another round has not ended, and does not run.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// The number of the interrupt that leaves at once.
const LEAVING: u32 = 3;

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    None,
    Stopped,
    Interrupted(Interruption),
    Killed { is_ordered: bool },
    Detached,
}

/// The steps of an interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interruption {
    /// Some submits are unanswered: their tasks must exist before they can be held.
    Submitting,
    /// The job is held. The running tasks are to be counted, at this moment or at once.
    Held { looks_at: Option<Mono> },
    /// The number of running tasks was requested.
    Looking,
}

impl Ending {
    pub(super) const fn takes_items(self) -> bool {
        matches!(self, Self::None | Self::Detached)
    }

    /// Whether killed tasks were killed by this map.
    pub(super) const fn is_killing(self) -> bool {
        matches!(self, Self::Interrupted(_) | Self::Killed { .. })
    }

    pub(super) const fn is_done(self) -> bool {
        match self {
            Self::None | Self::Stopped | Self::Detached | Self::Killed { is_ordered: true } => true,
            Self::Interrupted(_) | Self::Killed { is_ordered: false } => false,
        }
    }

    pub(super) const fn stopped(self) -> Self {
        match self {
            Self::None | Self::Detached => Self::Stopped,
            other => other,
        }
    }

    pub(super) fn look_again(&mut self) {
        if let Self::Interrupted(Interruption::Held { looks_at }) = self {
            *looks_at = None;
        }
    }

    pub(super) const fn poll_timeout(self) -> Option<Mono> {
        match self {
            Self::Interrupted(Interruption::Held { looks_at }) => looks_at,
            _ => None,
        }
    }
}

impl Map {
    /// The user interrupts the map: the first call ends waiting tasks, the next one also running tasks. Returns `false`
    /// if nothing is left to try: for the third call, however soon after the first one no task runs any more.
    pub fn handle_interrupt(&mut self) -> bool {
        self.stop_submitting();
        self.interrupts = self.interrupts.saturating_add(1);
        match self.ending {
            Ending::None | Ending::Stopped | Ending::Detached => {
                self.ending = Ending::Interrupted(Interruption::Submitting);
            }
            Ending::Interrupted(_) => self.ending = Ending::Killed { is_ordered: false },
            Ending::Killed { .. } => {}
        }
        self.interrupts < LEAVING
    }

    /// The reader has gone: open tasks are killed, and nothing more is printed.
    pub fn handle_no_reader(&mut self) {
        self.stop_submitting();
        self.forget_accepted();
        self.interrupts = LEAVING;
        self.ending = Ending::Killed { is_ordered: false };
    }

    /// The terminal has closed: the rest of the input is submitted, and the service goes on alone.
    pub fn handle_hang_up(&mut self) {
        if self.ending == Ending::None {
            self.ending = Ending::Detached;
            self.forget_accepted();
        }
    }

    fn forget_accepted(&mut self) {
        self.ahead.clear();
        self.window.clear();
        self.values.clear();
        self.value_bytes = 0;
        self.first_rounds.clear();
        self.lines.clear();
        self.following.forget_strangers();
        self.effects.clear();
    }

    /// The number of tasks of the job that are with agents.
    pub fn handle_running(&mut self, now: Mono, count: u64) {
        if let Ending::Interrupted(Interruption::Looking) = self.ending {
            self.ending = if count == 0 {
                Ending::Killed { is_ordered: false }
            } else {
                Ending::Interrupted(Interruption::Held { looks_at: Some(now + LOOK_PAUSE) })
            };
        }
    }

    /// Whether the map was ended early: by the user, or because no reader is left.
    #[must_use]
    pub const fn is_interrupted(&self) -> bool {
        self.ending.is_killing()
    }

    /// Whether the terminal has closed.
    #[must_use]
    pub fn is_detached(&self) -> bool {
        self.ending == Ending::Detached
    }

    pub(super) fn stop_submitting(&mut self) {
        self.tally.left += self.submits.drop_waiting() as u64;
    }

    /// The next step of an end.
    pub(super) fn end(&mut self, now: Mono) -> Option<Effect> {
        if self.submits.unanswered() > 0 {
            return None;
        }
        match self.ending {
            Ending::None | Ending::Stopped | Ending::Detached | Ending::Killed { is_ordered: true } => None,
            Ending::Interrupted(Interruption::Submitting) => {
                self.ending = Ending::Interrupted(Interruption::Held { looks_at: None });
                Some(Effect::Hold)
            }
            Ending::Interrupted(Interruption::Held { looks_at }) if looks_at.is_none_or(|at| at <= now) => {
                self.ending = Ending::Interrupted(Interruption::Looking);
                Some(Effect::CountRunning)
            }
            Ending::Interrupted(_) => None,
            Ending::Killed { is_ordered: false } => {
                self.ending = Ending::Killed { is_ordered: true };
                Some(Effect::Kill)
            }
        }
    }
}
