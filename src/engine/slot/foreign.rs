//! A run whose run.sh has ended, but not every process that it started: one of another user, such as a set-user-id program, which
//! the agent may not signal.
//!
//! It holds the slot, because no task shall run beside what another one has left. The controller is told at once, with the report
//! of ENDED, by whom. After `AGENT_FOREIGN_PROCESS_TIMEOUT` the result is reported all the same, with the reason; the slot stays
//! taken, without a task, until the process has ended or the agent stops.

use super::run::{Run, State, Taken};
use super::{Effect, Slot, Timer};
use crate::types::Now;

impl Slot {
    /// A signal to the processes of the run was refused: `holders` says by which of them.
    pub fn handle_refused(&mut self, now: Now, holders: &str) {
        let Run::Taken(run) = &mut self.run else { return };
        if !std::mem::replace(&mut run.refused, true) {
            log::warn!("task {}: {holders}", run.job.task);
        }
        let State::Ended { result, .. } = &mut run.state else { return };
        if result.error == holders {
            return;
        }
        holders.clone_into(&mut result.error);
        // An exclusive run is over when nothing of it is left, and not before.
        if run.job.lease.is_none() && !self.timers.is_set(&Timer::Hold) {
            self.timers.set(Timer::Hold, now.mono + self.settings.foreign_process_timeout);
        }
        self.report_soon(now);
    }

    /// Nothing is left of the run.
    pub(super) fn let_go(&mut self, now: Now) {
        match &mut self.run {
            Run::Free => {}
            Run::Held => {
                log::info!("nothing is left of the last task; asking for another one");
                self.run.clear();
                self.apply(now);
            }
            Run::Taken(run) if run.refused => {
                run.held = false;
                if let State::Ended { result, .. } = &mut run.state {
                    result.error.clear();
                }
                self.timers.clear(&Timer::Hold);
            }
            Run::Taken(_) => {}
        }
    }

    /// The result is not held back any longer.
    pub(super) fn give_up_waiting(&mut self) {
        let Run::Taken(run) = &mut self.run else { return };
        let Taken { state: State::Ended { result, .. }, job, .. } = &**run else { return };
        log::warn!("task {}: {}; this agent takes no task until it has ended", job.task, result.error);
        let result = result.clone();
        run.state = State::Removing { result };
        run.held = !self.stopping;
        self.timers.clear(&Timer::Hold);
        self.timers.clear(&Timer::Sweep);
        self.effects.push_back(Effect::Remove);
    }

    /// A stopping agent does not wait for what it cannot end.
    pub(super) fn stop_waiting(&mut self) {
        match &mut self.run {
            Run::Held => self.run.clear(),
            Run::Taken(run) if run.held => run.held = false,
            Run::Taken(_) if self.timers.is_set(&Timer::Hold) => self.give_up_waiting(),
            Run::Taken(_) | Run::Free => {}
        }
    }
}
