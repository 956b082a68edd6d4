//! Processes of a run that the agent may not signal, because they belong to another user: a process that run.sh has left
//! behind, such as a set-user-id program, or run.sh itself, after `exec sudo`.
//!
//! | the process is | and the run |
//! |---|---|
//! | left behind by run.sh | has ended |
//! | run.sh itself | counts as ended [`LAST_PAUSE`] after the last signal of the kill ladder; if it ends later, and the result has not been reported yet, that end is its result |
//!
//! Such a process occupies the slot, because no task may run beside the remains of another one. The report of ENDED
//! names it at once. After `AGENT_FOREIGN_PROCESS_TIMEOUT` the result is reported with the reason; the slot stays
//! occupied, without a task, until the process has ended or the agent stops.

use std::time::Duration;

use super::run::{ActiveRun, Run, State};
use super::stop::Mode;
use super::{Exited, Slot, Timer};
use base::Now;
use proc::ladder::RunMachine;

/// Time from the last signal, which a process has survived, to the verdict that this process is run.sh. A process that
/// SIGKILL can end has ended by then.
const LAST_PAUSE: Duration = Duration::from_millis(100);

/// A process of a run that may not be signalled, and whether it keeps the slot after the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Foreign {
    /// No signal to the run has been refused.
    #[default]
    None,
    /// A process that is not known to be run.sh.
    Other { keeps_slot: bool },
    /// run.sh, which counts as ended but may still be running.
    Root { keeps_slot: bool },
}

impl Foreign {
    pub(super) const fn keeps_slot(self) -> bool {
        matches!(self, Self::Other { keeps_slot: true } | Self::Root { keeps_slot: true })
    }

    const fn keep_slot(&mut self, keep: bool) {
        match self {
            Self::None => {}
            Self::Other { keeps_slot } | Self::Root { keeps_slot } => *keeps_slot = keep,
        }
    }

    /// run.sh has ended; true if it counted as ended before.
    pub(super) const fn end_root(&mut self) -> bool {
        let Self::Root { keeps_slot } = *self else { return false };
        *self = Self::Other { keeps_slot };
        true
    }
}

impl Slot {
    /// A signal to the processes of the run was refused; `holders` names them.
    pub fn handle_refused(&mut self, now: Now, holders: &str) {
        let Run::Active(run) = &mut self.run else { return };
        if run.foreign == Foreign::None {
            run.foreign = Foreign::Other { keeps_slot: false };
            self.journal.warn(format!("task {}: {holders}", run.dispatch.task));
        }
        let State::Run(machine) = &mut run.state else { return };
        let is_at_the_end = machine.is_at_the_end();
        let Some(result) = &mut machine.end else {
            if is_at_the_end {
                self.timers.set(Timer::Hold, now.mono + LAST_PAUSE);
            }
            return;
        };
        if result.error == holders {
            return;
        }
        holders.clone_into(&mut result.error);
        // An exclusive run has ended only when no process of it is left.
        if run.dispatch.lease.is_none() && !self.timers.is_set(&Timer::Hold) {
            self.timers.set(Timer::Hold, now.mono + self.settings.foreign_process_timeout);
        }
        self.report_soon(now);
        if self.mode == Mode::Stopping {
            self.stop_waiting();
        }
    }

    /// run.sh continues after the last signal, with these outputs: the run counts as ended.
    pub fn handle_unended(&mut self, now: Now, mut known: Exited) {
        let Run::Active(run) = &mut self.run else { return };
        if run.is_running() {
            run.foreign = Foreign::Root { keeps_slot: false };
            // run.sh may still be writing there.
            known.provided = None;
            self.handle_known(now, known);
        }
    }

    /// No process of the run is left.
    pub(super) fn let_go(&mut self, now: Now) {
        match &mut self.run {
            Run::Free => {}
            Run::Held => {
                self.journal.info("no process is left of the last task; asking for another one");
                self.run.clear();
                self.apply(now);
            }
            Run::Active(run) if run.foreign != Foreign::None => {
                run.foreign.keep_slot(false);
                if let State::Run(RunMachine { end: Some(result), .. }) = &mut run.state {
                    result.error.clear();
                }
                self.timers.clear(&Timer::Hold);
            }
            Run::Active(_) => {}
        }
    }

    /// Reports the result although a process is left.
    pub(super) fn give_up_waiting(&mut self) {
        let Run::Active(run) = &mut self.run else { return };
        let ActiveRun { state: State::Run(RunMachine { end: Some(result), .. }), dispatch, .. } = &**run else {
            return;
        };
        self.journal
            .warn(format!("task {}: {}; this agent takes no task until it has ended", dispatch.task, result.error));
        let result = result.clone();
        let close = run.close(result);
        run.foreign.keep_slot(self.mode != Mode::Stopping);
        self.timers.clear(&Timer::Hold);
        self.timers.clear(&Timer::Signal);
        self.effects.push_back(close);
    }

    /// A stopping agent does not wait for a process that it cannot end.
    pub(super) fn stop_waiting(&mut self) {
        match &mut self.run {
            Run::Held => self.run.clear(),
            Run::Active(run) if run.foreign.keeps_slot() => run.foreign.keep_slot(false),
            Run::Active(_) if self.timers.is_set(&Timer::Hold) => self.give_up_waiting(),
            Run::Active(_) | Run::Free => {}
        }
    }
}
