//! The claims of a pool: how far the next one is, and for how many tasks.

use super::ahead::Pace;
use super::{CLAIM_MAX, Effect};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Claims {
    stage: Stage,
    /// The number of the last claim.
    number: u64,
    /// Whether a task may have been opened since the last claim left.
    is_woken: bool,
    /// Whether the last claim got as many tasks as it wanted, so that there may be more.
    has_more: bool,
    /// Tasks without an agent that are enough, by the last count of agents.
    wanted: usize,
    pace: Pace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// This process has not been let in yet.
    Joining {
        is_calling: bool,
    },
    Resting,
    /// The controller is asked for free agents, of which one may have become free since then.
    Counting {
        is_stale: bool,
    },
    /// With Redis, or to be sent again with the same token.
    Calling {
        count: usize,
        is_calling: bool,
    },
}

/// The consequence of a count of agents.
pub(super) enum Counted {
    /// The tasks that are claimed ahead are enough.
    EnoughAhead,
    /// Each free agent has a task. With true, one may have become free since the count.
    NoneFree(bool),
    /// The next claim is to be sent.
    Claim,
}

impl Claims {
    pub(super) fn new() -> Self {
        let stage = Stage::Joining { is_calling: false };
        Self { stage, number: 0, is_woken: false, has_more: false, wanted: 0, pace: Pace::default() }
    }

    pub(super) const fn has_joined(&self) -> bool {
        !matches!(self.stage, Stage::Joining { .. })
    }

    pub(super) const fn is_counting(&self) -> bool {
        matches!(self.stage, Stage::Counting { .. })
    }

    pub(super) const fn is_claiming(&self) -> bool {
        matches!(self.stage, Stage::Calling { .. })
    }

    /// Whether the last claim may have left open tasks, or one was opened since.
    pub(super) const fn may_find_more(&self) -> bool {
        self.has_more || self.is_woken
    }

    /// Whether open tasks may be left, and so few runs have no agent that the next claim should follow.
    pub(super) fn is_due(&self, waiting: impl Fn() -> usize) -> bool {
        self.has_more && self.stage == Stage::Resting && waiting() * 2 <= self.wanted
    }

    /// Whether short programs queue in the namespace.
    pub(super) fn has_short_queue(&self) -> bool {
        self.has_more && self.pace.ahead(1) > 0
    }

    /// A program has taken so long.
    pub(super) fn add_time(&mut self, took: Duration) {
        self.pace.add(took);
    }

    /// A task may be open.
    pub(super) const fn wake(&mut self) {
        self.is_woken = true;
    }

    /// An agent may have become free; true if agents are being counted.
    pub(super) const fn outdate_count(&mut self) -> bool {
        let Stage::Counting { is_stale } = &mut self.stage else { return false };
        *is_stale = true;
        true
    }

    /// The call that is due, if it is not made yet.
    pub(super) fn call(&mut self) -> Option<Effect> {
        match &mut self.stage {
            Stage::Joining { is_calling: is_calling @ false } => {
                *is_calling = true;
                Some(Effect::Join)
            }
            Stage::Calling { count, is_calling: is_calling @ false } => {
                *is_calling = true;
                self.is_woken = false;
                Some(Effect::Claim(self.number, *count))
            }
            _ => None,
        }
    }

    /// The name of this worker is to be taken, for the first time or again.
    pub(super) const fn join(&mut self) {
        self.stage = Stage::Joining { is_calling: false };
    }

    pub(super) const fn joined(&mut self) {
        self.stage = Stage::Resting;
    }

    /// Begins to count free agents; false if a claim is under way.
    pub(super) fn count(&mut self) -> bool {
        let is_resting = self.stage == Stage::Resting;
        if is_resting {
            self.stage = Stage::Counting { is_stale: false };
        }
        is_resting
    }

    /// So many agents are free and busy, and so many runs have no agent.
    pub(super) fn counted(&mut self, (free, busy): (usize, usize), waiting: usize) -> Option<Counted> {
        let Stage::Counting { is_stale } = self.stage else { return None };
        self.wanted = (free + self.pace.ahead(free + busy)).min(free.max(CLAIM_MAX));
        self.stage = Stage::Resting;
        if self.wanted > free && waiting >= free && waiting * 2 > self.wanted {
            return Some(Counted::EnoughAhead);
        }
        let count = self.wanted.saturating_sub(waiting);
        if count == 0 {
            return Some(Counted::NoneFree(is_stale));
        }
        self.number += 1;
        self.stage = Stage::Calling { count: count.min(CLAIM_MAX), is_calling: false };
        Some(Counted::Claim)
    }

    /// The claim has got so many tasks.
    pub(super) const fn claimed(&mut self, tasks: usize) {
        if let Stage::Calling { count, .. } = self.stage {
            self.has_more = tasks >= count;
            self.stage = Stage::Resting;
        }
    }

    /// The claim has no answer, and is made again.
    pub(super) const fn unanswered(&mut self) {
        if let Stage::Calling { is_calling, .. } = &mut self.stage {
            *is_calling = false;
        }
    }
}
