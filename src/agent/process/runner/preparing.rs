//! The beginning of a run, and the work of the preparing thread for it.

use std::sync::Arc;

use super::super::failure::{failure, unprepared};
use super::super::preparation::{Done, Outcome, Prepared};
use super::super::sources::Halt;
use super::{Run, Runner};
use crate::slot::Slot;
use crate::workspace::ToolFolder;
use api::wire::requests::apply::Dispatch;
use base::{ExitCode, KeptFiles};
use proc::clock;

impl Runner {
    pub(super) fn prepare(&mut self, dispatch: Dispatch, slot: &mut Slot) {
        // The record is written before the folder is made. Otherwise an agent could die and leave an unknown folder, or
        // another agent could take the folder for that of a dead agent.
        let recorded = self.record.write(&dispatch, None).map_err(|error| unprepared(&error));
        let halt = Halt::new(dispatch.source.is_some()).map(Arc::new);
        let (halt, recorded) = match halt {
            Ok(halt) => (halt, recorded),
            Err(error) => (Arc::default(), Err(failure(&error))),
        };
        let outcome = match recorded {
            Ok(()) => self.preparer.begin(&dispatch, &halt, self.folders.kept()),
            Err(failure) => Some(Outcome { task: dispatch.task, prepared: None, outcome: Err(failure) }),
        };
        self.run = Some(Run { dispatch, halt, is_prepared: false, folder: None });
        if let Some(outcome) = outcome {
            self.take(outcome, slot);
        }
    }

    /// Takes the results of the preparing thread.
    pub(in crate::process) fn prepared(&mut self, slot: &mut Slot) {
        while let Some(done) = self.preparer.poll_done() {
            match done {
                Done::Prepared(outcome) => self.take(*outcome, slot),
                Done::Kept(task, kept) => slot.handle_kept(task, kept),
            }
        }
    }

    /// Keeps the files of the run, whose processes have ended.
    pub(super) fn keep(&self, slot: &mut Slot) {
        let Some(Run { dispatch, halt, folder: Some(Prepared { dir, before, .. }), .. }) = &self.run else {
            unreachable!("a run is kept without its folder")
        };
        let opened = dir.tool_folder(&dispatch.tool).and_then(ToolFolder::into_owned);
        match opened {
            Ok(folder) => self.preparer.keep(dispatch, (folder, Arc::clone(before)), halt),
            Err(error) => {
                let kept = KeptFiles { note: format!("no file was kept: {error}"), ..KeptFiles::default() };
                slot.handle_kept(dispatch.task, kept);
            }
        }
    }

    fn take(&mut self, outcome: Outcome, slot: &mut Slot) {
        let Some(run) = self.run.as_mut().filter(|run| run.dispatch.task == outcome.task) else {
            unreachable!("a preparation of task {} without its run", outcome.task)
        };
        run.folder = outcome.prepared;
        run.is_prepared = true;
        if outcome.outcome.as_ref().is_err_and(|failure| failure.exit_code == ExitCode::TOOL_MISSING) {
            self.missed = Some(run.dispatch.tool.clone());
        }
        if let Some(versions) = self.preparer.take_own_versions() {
            slot.handle_own_versions(versions);
        }
        slot.handle_prepared(clock::now_with_suspend(), outcome.outcome);
    }
}
