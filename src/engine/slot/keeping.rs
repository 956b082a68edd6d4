//! The files of a run that are kept with its task, between its last process and the removal of its folder.
//!
//! A result without them would count if the agent died meanwhile, so it is reported with them only. A kill stops the keeping, and the
//! result says so; an agent that stops does not report the run, which waits for another one.

use super::run::{Fate, Run, State, Taken};
use super::{Effect, Slot};
use crate::types::{KeptFiles, RunResult, TaskId};

impl Run {
    /// Whether its files are being kept.
    pub(super) fn is_keeping(&self) -> bool {
        self.taken().is_some_and(|run| matches!(run.state, State::Keeping { .. }))
    }
}

impl Taken {
    /// No process of the run is left, or the rest is not waited for. The next effect keeps its files if its task names outputs, run.sh
    /// was started, and a result will be reported; otherwise it removes the folder.
    pub(super) fn close(&mut self, result: RunResult) -> Effect {
        if self.job.has_outputs && self.times.run.is_some() && self.fate == Fate::Reported {
            self.state = State::Keeping { result };
            Effect::Keep
        } else {
            self.state = State::Removing { result };
            Effect::Remove
        }
    }
}

impl Slot {
    /// Files of the run of this task have been kept, as far as that is possible.
    pub fn handle_kept(&mut self, task: TaskId, kept: KeptFiles) {
        let Run::Taken(run) = &mut self.run else { return };
        let State::Keeping { result } = &run.state else { return };
        if run.job.task != task {
            return;
        }
        let result = RunResult { files: Some(Box::new(kept)), ..result.clone() };
        run.state = State::Removing { result };
        self.effects.push_back(Effect::Remove);
    }
}
