//! The lease of an exclusive run, on the agent's side: granted with the task, renewed by answered heartbeats, and the
//! consequences of its expiry.
//!
//! | event | the lease |
//! |---|---|
//! | the task arrives | counts from the last answered heartbeat; the guard gets the end of it |
//! | a heartbeat that named the run is answered with RUN or KILL | counts from the sending of that heartbeat; the guard gets the new end |
//! | a heartbeat is answered otherwise | is unchanged: the controller may have given the run up already |
//! | it expires | the run is ended, and then reported as given up |
//! | no process of the run is left | is cleared, also at the guard |

use super::orders::Order;
use super::outcome::not_started;
use super::run::Fate;
use super::{Effect, Hold, Slot, Timer};
use api::wire::requests::apply::Dispatch;
use base::{Mono, Now, Round, TaskId, lease};

/// The lease of a task had expired before the task arrived.
pub(super) struct BeyondLease;

impl Slot {
    /// Until when a run of this task may continue, if it is exclusive.
    pub(super) fn grant(&mut self, now: Now, dispatch: &Dispatch) -> Result<Option<Mono>, BeyondLease> {
        let Some(term) = dispatch.lease else { return Ok(None) };
        let until = self.link.last_contact().map(|sent| sent + lease::held_term(term));
        if until.is_none_or(|until| until <= now.mono) {
            // The controller hands it out again with the next APPLY, unless it has given the agent up.
            self.journal.warn(format!("task {} arrives after its lease has expired", dispatch.task));
            return Err(BeyondLease);
        }
        Ok(until)
    }

    /// The run may continue until this moment.
    pub(super) fn hold(&mut self, until: Mono) {
        let hold = Hold { until, kill_at: until + self.settings.kill_time() };
        self.run.set_hold(Some(hold));
        self.timers.set(Timer::Lease, until);
        self.effects.push_back(Effect::Lease(Some(hold)));
    }

    /// The controller has received a heartbeat, sent at `sent`, that named the run, and wants the run to continue.
    pub(super) fn renew_lease(&mut self, now: Now, run: (TaskId, Round), sent: Mono) {
        let Some(hold) = self.run.hold().filter(|_| self.run.id() == Some(run)) else { return };
        let until = sent + lease::held_term(self.run.term());
        if !self.run.is_given_up() && hold.until > now.mono && until > hold.until {
            self.hold(until);
        }
    }

    /// The lease has expired without an answer of the controller.
    pub(super) fn end_lease(&mut self, now: Now) {
        if let (Some((task, round)), false) = (self.run.id(), self.run.has_ended()) {
            self.journal
                .warn(format!("the controller does not answer: the lease of round {round} of task {task} has expired"));
            self.give_up(now);
        }
    }

    /// Ends an exclusive run that must not continue. A run that has ended by itself keeps its result, for the controller to
    /// judge.
    pub(super) fn give_up(&mut self, now: Now) {
        if self.run.has_ended() {
            return;
        }
        self.run.set_fate(Fate::GivenUp);
        self.kill(now);
    }

    /// Whether the lease has expired before the start; then the run has ended without one.
    pub(super) fn is_beyond_lease(&mut self, now: Now) -> bool {
        if self.run.hold().is_none_or(|hold| now.mono < hold.until) {
            return false;
        }
        self.give_up(now);
        self.end_without_run(now, not_started(Order::Kill));
        true
    }

    /// Whether all remaining processes of the run must be ended with SIGKILL at once.
    pub(super) fn is_late(&self, now: Now) -> bool {
        self.run.hold().is_some_and(|hold| hold.kill_at <= now.mono)
    }

    /// No process of the run is left.
    pub(super) fn release_lease(&mut self) {
        if self.run.hold().is_some() {
            self.run.set_hold(None);
            self.timers.clear(&Timer::Lease);
            self.effects.push_back(Effect::Lease(None));
        }
    }
}
