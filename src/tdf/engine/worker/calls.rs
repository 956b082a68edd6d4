//! The calls to Redis, one at a time beside the renewals, each made again until it is answered.

use std::time::Duration;

use super::{
    Assignment, Effect, KEEP_AFTER, LEAVE_AFTER, Note, Phase, READ_PAUSE, READS_MAX, RENEWAL_INTERVAL, Timer, Worker,
};
use base::Now;
use base::tdf::{Fence, State, TaskId};

impl Worker {
    /// Makes the call of the phase.
    pub(super) fn call(&mut self) {
        let may_claim = self.stopping.is_none();
        let effect = match &mut self.phase {
            Phase::Settling { results, .. } => match results.front() {
                Some(fence) => Effect::Report { fence: fence.clone(), claim: None },
                None => Effect::Recover,
            },
            Phase::Claiming => Effect::Claim(self.claims),
            Phase::Reporting { fence, claim, .. } => {
                *claim &= may_claim;
                Effect::Report { fence: fence.clone(), claim: claim.then_some(self.claims) }
            }
            Phase::GivingBack { fence } => Effect::GiveBack(fence.clone()),
            Phase::Busy(_) | Phase::Resting { .. } | Phase::Ended => return,
        };
        // A claim may miss a task that is opened after it has left.
        self.is_woken &= !matches!(effect, Effect::Claim(_) | Effect::Report { claim: Some(_), .. });
        self.is_calling = true;
        self.effects.push_back(effect);
    }

    /// Redis has answered.
    fn answered(&mut self) {
        self.is_calling = false;
        self.back();
    }

    fn back(&mut self) {
        if self.outage.end() {
            self.log(Note::Back);
        }
    }

    /// Redis has not answered: the call is repeated after a pause.
    fn unanswered(&mut self, now: Now, reason: String) {
        self.is_calling = false;
        let pause = self.longer_pause(now, reason);
        self.timers.set(Timer::Retry, now.mono + pause);
    }

    fn longer_pause(&mut self, now: Now, reason: String) -> Duration {
        let (pause, is_new) = self.outage.fail(now.mono, &reason);
        if is_new {
            self.log(Note::Away(reason));
        }
        pause
    }

    /// Rests for this time.
    pub(super) fn rest(&mut self, now: Now, pause: Duration) {
        if self.stopping.is_some() {
            self.leave();
        } else if pause.is_zero() {
            self.claim();
        } else {
            self.phase = Phase::Resting { is_idle: false };
            self.timers.set(Timer::Claim, now.mono + pause);
        }
    }

    pub(super) fn claim(&mut self) {
        self.timers.clear(&Timer::Claim);
        self.phase = Phase::Claiming;
        self.call();
    }

    /// The answer to a claim: a task, or none is open.
    pub fn handle_claimed(&mut self, now: Now, answer: Result<Option<Assignment>, String>) {
        if !matches!(self.phase, Phase::Claiming) {
            return;
        }
        match answer {
            Ok(Some(task)) => {
                self.answered();
                self.begin(now, task);
            }
            Ok(None) => {
                self.answered();
                self.claims += 1;
                if self.stopping.is_some() {
                    self.leave();
                } else if self.is_woken {
                    self.claim();
                } else {
                    self.phase = Phase::Resting { is_idle: true };
                    self.timers.set(Timer::Claim, now.mono + self.settings.poll_interval);
                }
            }
            // If Redis has carried the claim out, the same token gets the same task.
            Err(reason) => self.unanswered(now, reason),
        }
    }

    /// The runs of dead processes of this worker's name are lost, and their tasks have these states.
    pub fn handle_recovered(&mut self, now: Now, answer: Result<Vec<(TaskId, State)>, String>) {
        let lost = match answer {
            Ok(lost) => lost,
            Err(reason) => return self.unanswered(now, reason),
        };
        self.answered();
        lost.into_iter().for_each(|(task, state)| self.log(Note::Orphan(task, state)));
        self.rest(now, Duration::ZERO);
    }

    /// Takes a task. A stopping worker gives it back.
    fn begin(&mut self, now: Now, task: Assignment) {
        self.claims += 1;
        self.is_woken = false;
        if self.stopping.is_some() {
            self.give_back(now, task.fence);
        } else {
            self.start(now, task);
        }
    }

    pub(super) fn give_back(&mut self, now: Now, fence: Fence) {
        self.timers.set(Timer::Leave, now.mono + LEAVE_AFTER);
        self.phase = Phase::GivingBack { fence };
        self.call();
    }

    /// The task waits again, or another component has moved it before.
    pub fn handle_given_back(&mut self, now: Now, answer: Result<bool, String>) {
        let Phase::GivingBack { fence } = &self.phase else { return };
        let task = fence.task;
        let is_ours = match answer {
            Ok(is_ours) => is_ours,
            Err(reason) => return self.unanswered(now, reason),
        };
        self.answered();
        if is_ours {
            self.log(Note::GivenBack(task));
            self.stopping.get_or_insert_default().given_back = Some(task);
        } else {
            self.log(Note::Dropped(task, "another component has moved it".to_owned()));
        }
        self.phase = Phase::Resting { is_idle: false };
        self.leave();
    }

    /// Reports a result that was collected.
    pub(super) fn report(&mut self, now: Now, fence: Fence, has_failed: bool) {
        let settings = &self.settings;
        let pause = if has_failed { settings.pause_after_failure } else { settings.pause_after_success };
        let claim = pause.is_zero() && self.stopping.is_none();
        self.phase = Phase::Reporting { fence, is_kept: false, pause, claim };
        self.timers.set(Timer::Keep, now.mono + KEEP_AFTER);
        if self.stopping.is_some() {
            self.timers.set(Timer::Leave, now.mono + LEAVE_AFTER);
        }
        self.call();
    }

    /// Redis has the result, or another state of the task. The claim that went with the report is under way.
    pub fn handle_reported(&mut self, now: Now, answer: Result<Option<String>, String>) {
        let dropped = match answer {
            Ok(dropped) => dropped,
            Err(reason) => {
                self.keep();
                return self.unanswered(now, reason);
            }
        };
        self.answered();
        match &mut self.phase {
            Phase::Settling { .. } => {
                let Some(fence) = self.settled() else { return };
                self.over(fence, dropped);
                self.settle_next();
            }
            Phase::Reporting { fence, pause, claim, .. } => {
                let (fence, pause, claim) = (fence.clone(), *pause, *claim);
                self.timers.clear(&Timer::Keep);
                self.over(fence, dropped);
                if claim {
                    self.phase = Phase::Claiming;
                    self.is_calling = true;
                } else {
                    self.phase = Phase::Resting { is_idle: false };
                    self.rest(now, pause);
                }
            }
            _ => {}
        }
    }

    /// The kept result that is to be reported cannot be read, for this reason. That may pass; otherwise the next process of this name
    /// tries again.
    pub fn handle_unreadable(&mut self, now: Now, reason: String) {
        let Phase::Settling { reads, .. } = &mut self.phase else { return self.unanswered(now, reason) };
        *reads += 1;
        self.is_calling = false;
        if *reads < READS_MAX {
            self.timers.set(Timer::Retry, now.mono + READ_PAUSE);
        } else if let Some(fence) = self.settled() {
            self.log(Note::Unreadable(fence.task, reason));
            self.settle_next();
        }
    }

    /// Takes the kept result that was dealt with.
    fn settled(&mut self) -> Option<Fence> {
        let Phase::Settling { results, reads } = &mut self.phase else { return None };
        *reads = 0;
        results.pop_front()
    }

    fn settle_next(&mut self) {
        if self.stopping.is_some() { self.leave() } else { self.call() }
    }

    fn over(&mut self, fence: Fence, dropped: Option<String>) {
        if let Some(found) = dropped {
            self.log(Note::Dropped(fence.task, found));
        }
        self.effects.push_back(Effect::Forget(fence));
    }

    /// The result shall outlive this process.
    pub(super) fn keep(&mut self) {
        if let Phase::Reporting { is_kept: is_kept @ false, .. } = &mut self.phase {
            *is_kept = true;
            self.effects.push_back(Effect::Keep);
        }
    }

    pub(super) fn renew(&mut self) {
        self.effects.push_back(Effect::Renew(self.held().cloned()));
    }

    fn held(&self) -> Option<&Fence> {
        match &self.phase {
            Phase::Busy(run) => Some(run.fence()),
            Phase::Reporting { fence, .. } => Some(fence),
            // The report of a long result takes its time.
            Phase::Settling { results, .. } => results.front(),
            _ => None,
        }
    }

    /// The lease of a run is renewed, or the run is lost, with the state of the task.
    pub fn handle_renewed(&mut self, now: Now, of: Option<&Fence>, answer: Result<Option<String>, String>) {
        if matches!(self.phase, Phase::Ended) {
            return;
        }
        let again = match answer {
            Ok(found) => {
                if self.timers.is_set(&Timer::Retry) {
                    // A pending call need not wait longer. Only its own answer shows the end of the outage: Redis
                    // may refuse this call alone, because a key has a wrong type.
                    self.timers.set(Timer::Retry, now.mono);
                } else if !self.is_calling {
                    self.back();
                }
                self.renewed(now, of, found);
                RENEWAL_INTERVAL
            }
            Err(reason) => self.longer_pause(now, reason).min(RENEWAL_INTERVAL),
        };
        self.timers.set(Timer::Renew, now.mono + again);
    }

    /// Ends a run that the worker has lost. The answer to a report shows the loss itself.
    fn renewed(&mut self, now: Now, of: Option<&Fence>, found: Option<String>) {
        let (Some(of), Some(found)) = (of, found) else { return };
        if matches!(self.phase, Phase::Busy(_)) && self.held() == Some(of) {
            self.log(Note::Dropped(of.task, found));
            self.end_run(now, super::Ending::Lost);
        }
    }
}
