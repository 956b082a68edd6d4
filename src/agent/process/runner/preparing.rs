//! The beginning of a run, and the work of the preparing thread for it.

use std::sync::Arc;

use super::super::failure::{failure, unprepared};
use super::super::needs::Needs;
use super::super::preparation::{Done, Outcome, Prepared};
use super::super::sources::Halt;
use super::staying::Staying;
use super::{Run, Runner};
use crate::slot::Slot;
use crate::workspace::ToolFolder;
use api::wire::requests::apply::Dispatch;
use base::{ExitCode, KeptFiles};
use proc::clock;

impl Runner {
    pub(super) fn prepare(&mut self, dispatch: Dispatch, slot: &mut Slot) {
        let (halt, has_record) = (Arc::default(), false);
        let mut run = Run { dispatch, halt, is_prepared: false, folder: None, staying: None, has_record };
        let needs = match self.take_warm(&mut run) {
            // All that moves is the task itself.
            Some(Needs::Tool) => {
                run.is_prepared = true;
                self.run = Some(run);
                return slot.handle_prepared(clock::now_with_suspend(), Ok(()));
            }
            Some(Needs::Folder) => Needs::Folder,
            None if run.dispatch.command.is_some() => Needs::Folder,
            None => Needs::Tool,
        };
        self.run = Some(run);
        self.begin(needs, slot);
    }

    /// The tool of the task has ended before it had read it: another process of it is prepared.
    pub(super) fn prepare_again(&mut self, slot: &mut Slot) {
        if let Some(run) = &mut self.run {
            run.is_prepared = false;
            // A folder of the task is made anew, too.
            if let Some(folder) = run.folder.take() {
                self.folders.end(folder);
            }
        }
        self.begin(Needs::Tool, slot);
    }

    fn begin(&mut self, needs: Needs, slot: &mut Slot) {
        let Some(run) = &mut self.run else { return };
        let dispatch = run.dispatch.clone();
        run.has_record = true;
        // The record is written before the folder is made. Otherwise an agent could die and leave an unknown folder, or
        // another agent could take the folder for that of a dead agent.
        let recorded = self.record.write(&dispatch, None).map_err(|error| unprepared(&error));
        let halt = Halt::new(dispatch.source.is_some()).map(Arc::new);
        let (halt, recorded) = match halt {
            Ok(halt) => (halt, recorded),
            Err(error) => (Arc::default(), Err(failure(&error))),
        };
        let outcome = match recorded {
            Ok(()) => self.preparer.begin(&dispatch, needs, &halt, self.folders.kept()),
            Err(failure) => Some(Outcome::failed(&dispatch, None, failure)),
        };
        run.halt = halt;
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
        let Some(Run { dispatch, halt, folder, .. }) = &self.run else { unreachable!("the files of no run are kept") };
        let Some(Prepared { dir, before, .. }) = folder else {
            // Its tool has ended before it had read the task, and the task was killed before it had another folder.
            return slot.handle_kept(dispatch.task, KeptFiles::default());
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
        if outcome.outcome.is_err() && self.folders.are_gone() {
            // The task waits for another agent, without a loss.
            slot.handle_stop(clock::now_with_suspend());
        }
        run.folder = outcome.prepared;
        run.is_prepared = true;
        let is_again = run.staying.as_ref().is_some_and(Staying::is_handed);
        if let Some(mut cold) = outcome.cold {
            std::mem::take(&mut cold.rest).into_iter().for_each(|rest| self.folders.remover().take(rest));
            match &mut run.staying {
                Some(staying) if is_again => staying.set_cold(cold),
                staying => *staying = Some(Staying::cold(cold)),
            }
        }
        if outcome.outcome.as_ref().is_err_and(|failure| failure.exit_code == ExitCode::TOOL_MISSING) {
            self.missed = Some(run.dispatch.tool.clone());
        }
        if let Some(versions) = self.preparer.take_own_versions() {
            slot.handle_own_versions(versions);
        }
        if is_again {
            return self.prepared_again(outcome.outcome, slot);
        }
        slot.handle_prepared(clock::now_with_suspend(), outcome.outcome);
    }
}
