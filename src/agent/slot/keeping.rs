//! The files of a run that are kept with its task, between its last process and the removal of its folder.
//!
//! The result is not reported before the files are kept: if the agent died between, a result without files would count. A kill stops
//! the keeping, which the result mentions; an agent that stops does not report the run, and the task waits for another agent.

use super::foreign::Foreign;
use super::run::{ActiveRun, Fate, Run, State};
use super::{Effect, Exited, Slot};
use base::{KeptFiles, RunResult, TaskId};
use proc::ladder::RunMachine;

impl Run {
    /// Whether its files are being kept.
    pub(super) fn is_keeping(&self) -> bool {
        self.active().is_some_and(|run| matches!(run.state, State::Keeping { .. }))
    }
}

impl ActiveRun {
    /// Whether the result waits for processes of a killed run that outlive run.sh and still write. A process that may not be
    /// signalled is reported at once.
    pub(super) fn writes_on(&self, machine: &RunMachine<RunResult>) -> bool {
        self.is_killed() && self.foreign == Foreign::None && machine.end.is_some() && machine.is_signalled()
    }

    /// No process of the run is left, or the rest is not waited for. The next effect keeps its files if its task names outputs, run.sh
    /// was started, and a result will be reported; otherwise it removes the folder.
    pub(super) fn close(&mut self, result: RunResult) -> Effect {
        if self.dispatch.has_outputs && self.times.run.is_some() && self.fate == Fate::Reported {
            self.state = State::Keeping { result };
            Effect::Keep
        } else {
            self.state = State::Removing { result };
            Effect::Remove
        }
    }
}

impl Slot {
    /// No process of the run is left, or the rest is not waited for.
    pub(super) fn close(&mut self) {
        let Run::Active(run) = &mut self.run else { return };
        let is_killed = run.is_killed();
        let State::Run(machine) = &mut run.state else { return };
        let is_late = is_killed && machine.is_signalled();
        if let Some(result) = machine.end.as_ref().filter(|_| is_late) {
            self.effects.push_back(Effect::ReadAgain(result.exit_code));
        }
        let close = machine.end.take().map(|result| run.close(result));
        self.release_lease();
        self.effects.push_back(close.unwrap_or(Effect::Remove));
    }

    /// The outputs of a run that has ended, with what its last processes have written.
    pub fn handle_read_again(&mut self, exited: Exited) {
        let Run::Active(run) = &mut self.run else { return };
        if let State::Keeping { result } | State::Removing { result } = &mut run.state {
            let RunResult { report_tail, stdout_tail, stderr_tail, output_bytes, .. } = exited.result;
            *result = RunResult { report_tail, stdout_tail, stderr_tail, output_bytes, ..std::mem::take(result) };
        }
    }

    /// Files of the run of this task have been kept, as far as that is possible.
    pub fn handle_kept(&mut self, task: TaskId, kept: KeptFiles) {
        let Run::Active(run) = &mut self.run else { return };
        let State::Keeping { result } = &run.state else { return };
        if run.dispatch.task != task {
            return;
        }
        let result = RunResult { files: Some(Box::new(kept)), ..result.clone() };
        run.state = State::Removing { result };
        self.effects.push_back(Effect::Remove);
    }
}
