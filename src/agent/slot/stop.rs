//! The stop of an agent: the run ends, its result is confirmed, and the exit is sent and confirmed. Each step has a time limit.
//!
//! | remaining step | event | next |
//! |---|---|---|
//! | the run | the slot is free, or the run is finished and to be reported | the result |
//! | the result | confirmed, or not wanted; or `AGENT_STOP_TIMEOUT` has passed, and it is given up | the exit |
//! | the exit | confirmed; or [`FAREWELL`] has passed | none |

use std::time::Duration;

use super::{Effect, Slot, Timer};
use api::wire::requests::FromAgent;
use base::Now;

/// How long a stopping agent waits for the confirmation of its exit.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Serving,
    /// The agent stops as soon as its slot is free and its results are confirmed.
    Retiring,
    Stopping,
}

impl Slot {
    /// Stops the agent. The run is ended, and its task waits for another agent. A known result is reported, and the agent waits
    /// for its confirmation, at most for `AGENT_STOP_TIMEOUT`.
    pub fn handle_stop(&mut self, now: Now) {
        if std::mem::replace(&mut self.mode, Mode::Stopping) == Mode::Stopping {
            return;
        }
        self.drop_list();
        self.run.give_way();
        self.stop_waiting();
        self.kill(now);
        self.leave_if_done(now);
    }

    /// Stops the agent as soon as its slot is free and its results are confirmed. No other task starts.
    pub fn handle_retire(&mut self, now: Now) {
        if self.mode == Mode::Serving {
            self.mode = Mode::Retiring;
        }
        self.stop_if_idle(now);
    }

    /// Stops a retiring agent that has nothing to do.
    pub(super) fn stop_if_idle(&mut self, now: Now) {
        if self.run.is_free() && self.link.is_settled() {
            self.handle_stop(now);
        }
    }

    /// A stopping agent sends its exit when it has nothing else to send.
    pub(super) fn leave_if_done(&mut self, now: Now) {
        if self.mode != Mode::Stopping || self.timers.is_set(&Timer::Farewell) {
            return;
        }
        if self.run.is_free() && self.link.is_settled() {
            self.send_exit(now);
        } else if (self.run.is_free() || self.run.is_finished()) && !self.timers.is_set(&Timer::Patience) {
            self.timers.set(Timer::Patience, now.mono + self.settings.stop_timeout);
        }
    }

    fn send_exit(&mut self, now: Now) {
        self.effects.push_back(Effect::Send(FromAgent::Exit));
        self.timers.set(Timer::Farewell, now.mono + FAREWELL);
        self.timers.clear(&Timer::Patience);
        self.timers.clear(&Timer::Heartbeat);
    }

    /// The results have not been confirmed in time, and are dropped.
    pub(super) fn give_up_results(&mut self, now: Now) {
        let last = self.run.report(now);
        for report in self.link.unconfirmed_reports().chain(&last) {
            let round = report.round.unwrap_or_default();
            let code = report.result.as_ref().map_or(0, |result| result.exit_code.0);
            self.journal.warn(format!(
                "the controller has not confirmed that round {round} of task {} ended with exit code {code}; if it does not \
                 know the result, it runs the task again, or ends it as LOST beyond MAX_LOSSES",
                report.task
            ));
        }
        self.send_exit(now);
    }
}
