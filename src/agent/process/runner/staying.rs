//! The run of a task by a tool that stays: the hand-over, the answer, and what becomes of the tool after it.

use std::time::Duration;

use super::super::command::NotStarted;
use super::super::ending;
use super::super::needs::{Needs, needs_folder};
use super::super::stay::{Cold, Event, Line};
use super::launcher::not_started;
use super::{Run, Runner};
use crate::slot::{Exited, Failure, Signal, Slot, SpawnFailure};
use api::wire::{info, policy};
use base::{ExitCode, Stay};
use proc::process::{self, ChildExit, Rest};
use proc::{clock, readable};

/// How often a task gets another process when one has ended before it has read the task.
const RESTARTS_MAX: u32 = 3;

/// The part of a run that a tool that stays has.
#[derive(Debug)]
pub(super) struct Staying {
    /// The tool, until it is started.
    cold: Option<Cold>,
    /// Whether it was running when the task came.
    is_warm: bool,
    phase: Phase,
    /// Whether the tool ends with the task.
    ends_tool: bool,
    report: String,
    restarts: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The engine waits for the result of the start.
    Starting,
    /// The tool has the task, or another process of it is being started for it.
    Handed,
    /// The result is known.
    Ended,
}

impl Staying {
    pub(super) fn cold(cold: Cold) -> Self {
        Self::new(Some(cold), false)
    }

    /// Whether the engine knows that the tool has the task.
    pub(super) fn is_handed(&self) -> bool {
        self.phase == Phase::Handed
    }

    pub(super) fn set_cold(&mut self, cold: Cold) {
        self.cold = Some(cold);
    }

    fn warm() -> Self {
        Self::new(None, true)
    }

    fn new(cold: Option<Cold>, is_warm: bool) -> Self {
        let (phase, ends_tool, report, restarts) = (Phase::Starting, false, String::new(), 0);
        Self { cold, is_warm, phase, ends_tool, report, restarts }
    }

    pub(super) const fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended)
    }

    pub(super) fn report(&self) -> &str {
        &self.report
    }
}

impl Runner {
    /// Takes the tool of this run if it stays and is free. Returns the kind of folder that is still needed: none is said as
    /// [`Needs::Tool`], which the tool has.
    pub(super) fn take_warm(&mut self, run: &mut Run) -> Option<Needs> {
        if self.stays.is_empty() {
            return None;
        }
        let identity = self.preparer.identity(&run.dispatch)?;
        let terms: Stay = self.stays.take(&identity, (run.dispatch.task, run.dispatch.round))?;
        run.staying = Some(Staying::warm());
        Some(if needs_folder(&run.dispatch, &terms) { Needs::Folder } else { Needs::Tool })
    }

    /// Starts the tool of the run, or hands the task over if it is running. The engine learns of a success when the tool has the task.
    pub(super) fn spawn_staying(&mut self, slot: &mut Slot) {
        let started = match self.run.as_mut().and_then(|run| run.staying.as_mut()?.cold.take()) {
            Some(cold) => self.start_tool(cold),
            None => return self.hand_over(slot),
        };
        if let Err(why) = started {
            let failure = match why {
                NotStarted::Failed(failure) => failure,
                NotStarted::Ended(exit) => SpawnFailure::Exited(Box::new(self.known(&ChildExit::unused(exit)))),
            };
            match failure {
                SpawnFailure::Failed(failure) if self.staying().is_some_and(|staying| staying.is_handed()) => {
                    self.end_task(failure.exit_code, failure.error, slot);
                }
                failure => slot.handle_spawned(clock::now_with_suspend(), Err(failure)),
            }
        }
    }

    fn start_tool(&mut self, cold: Cold) -> Result<(), NotStarted> {
        let Some(run) = &mut self.run else { return Err(not_started(&"there is no run")) };
        let (line, other) = Line::new().map_err(|error| not_started(&error))?;
        let child = match self.launcher.start_staying(&run.dispatch.tool, &cold.home, (&other, &self.record.mark())) {
            Ok(child) => child,
            Err(why) => {
                // The engine tries again if run.sh is busy.
                if let Some(staying) = &mut run.staying {
                    staying.set_cold(cold);
                }
                return Err(why);
            }
        };
        let (end_signal, _) = policy::of_run(&run.dispatch.fields);
        self.processes.start_in(child.id(), end_signal);
        // A sweep removes the folder of the task, if it has one.
        let written = match run.folder {
            Some(_) => self.record.write(&run.dispatch, Some(child.id())),
            None => self.record.write_staying(Some(child.id())),
        };
        if let Err(error) = written {
            // The tool can still be identified by its mark.
            log::error!("{error}");
        }
        let run = (run.dispatch.task, run.dispatch.round);
        self.stays.start(cold, (child, line), run).map_err(|error| {
            // It ends as an orphan of the run.
            self.processes.end();
            not_started(&error)
        })
    }

    fn hand_over(&mut self, slot: &mut Slot) {
        let Some(run) = &mut self.run else { return };
        let Some(staying) = &mut run.staying else { return };
        let (end_signal, _) = policy::of_run(&run.dispatch.fields);
        if let Some(root) = self.stays.root() {
            self.processes.start_in(root, end_signal);
        }
        let folder = run.folder.as_ref().map(|folder| folder.dir.path().join(run.dispatch.tool.folder_name()));
        let is_first = staying.phase == Phase::Starting;
        staying.phase = Phase::Handed;
        let handed = self.stays.hand(folder.as_deref(), &info::task_json(&run.dispatch));
        if is_first {
            slot.handle_handed(clock::now_with_suspend());
        }
        if let Err(error) = handed {
            log::debug!("tool {} does not take task {}: {error}", run.dispatch.tool, run.dispatch.task);
            self.end_task_unread(slot);
        }
    }

    /// The tool must give the task up.
    pub(super) fn cancel(&mut self, ends_tool: bool) {
        let Some(Run { halt, staying: Some(staying), .. }) = &mut self.run else { return };
        staying.ends_tool |= ends_tool;
        if self.stays.home().is_some() {
            self.stays.cancel();
        } else {
            // Another process of the tool is being prepared: the outcome of that ends the task.
            halt.set();
            self.preparer.interrupt();
        }
    }

    /// Another process of the tool has been prepared for the task, or could not be.
    pub(super) fn prepared_again(&mut self, outcome: Result<(), Failure>, slot: &mut Slot) {
        let is_killed = self.staying().is_some_and(|staying| staying.ends_tool);
        match outcome {
            _ if is_killed => {
                self.end_task(ExitCode::KILLED_PREPARING, "killed before its tool had read it".to_owned(), slot);
            }
            Ok(()) => self.spawn_staying(slot),
            Err(failure) => self.end_task(failure.exit_code, failure.error, slot),
        }
    }

    /// The tool must not start any more.
    pub(super) fn abort_start(&mut self, slot: &mut Slot) {
        if self.staying().is_some_and(|staying| staying.phase == Phase::Starting) {
            self.fail_start(ExitCode::KILLED_PREPARING, "killed while its tool was being started".to_owned(), slot);
        }
    }

    /// A signal to the processes of the run: those of a tool that stays belong to them from now on.
    pub(super) fn include_tool(&mut self, signal: Signal) {
        if self.staying().is_some_and(|staying| !staying.has_ended()) {
            log::debug!("{signal:?} to a tool that stays");
            self.condemn();
        }
    }

    /// Names in the log the processes that the task has left behind in a tool that stays, and watches them, before they are signalled.
    pub(super) fn watch_left(&mut self) {
        let Some(Run { dispatch, staying: Some(staying), .. }) = &self.run else { return };
        if staying.ends_tool || !self.ends.is_empty() {
            return;
        }
        let left = self.processes.stragglers();
        if let Some(names) = process::named(&left) {
            log::warn!("task {} has left {names} behind; ending that", dispatch.task);
        }
        self.ends = left.into_iter().filter_map(process::end_of).collect();
    }

    /// Some of them may have ended.
    pub(super) fn look_at_ends(&mut self, slot: &mut Slot) {
        let before = self.ends.len();
        self.ends.retain(|end| !readable::is_readable(end, Some(Duration::ZERO)));
        let ended = before - self.ends.len();
        if ended > 0 {
            let Rest { left, .. } = self.processes.look();
            slot.handle_tree(clock::now_with_suspend(), left, u32::try_from(ended).unwrap_or(u32::MAX));
        }
    }

    fn condemn(&mut self) {
        if let Some(staying) = self.staying() {
            staying.ends_tool = true;
        }
        self.stays.condemn(&mut self.processes);
    }

    fn staying(&mut self) -> Option<&mut Staying> {
        self.run.as_mut()?.staying.as_mut()
    }

    /// Handles the messages of tools that stay.
    pub(super) fn poll_stays(&mut self, slot: &mut Slot) {
        while let Some(event) = self.stays.poll(&mut self.processes) {
            self.handle_stay(event, slot);
        }
    }

    /// Handles the deadlines of tools that stay.
    pub(in crate::process) fn handle_timeout(&mut self, slot: &mut Slot) {
        if let Some(event) = self.stays.handle_timeout() {
            self.handle_stay(event, slot);
        }
    }

    /// A child may have been a tool that stays.
    pub(super) fn reap_stays(&mut self, slot: &mut Slot) {
        if let Some(event) = self.stays.reap(&mut self.processes) {
            self.handle_stay(event, slot);
        }
    }

    fn handle_stay(&mut self, event: Event, slot: &mut Slot) {
        let Some(run) = &mut self.run else { return };
        let (tool, task) = (run.dispatch.tool.clone(), run.dispatch.task);
        let Some(staying) = &mut run.staying else { return };
        match (staying.phase, event) {
            (Phase::Ended, event) => {
                if !staying.ends_tool && !matches!(event, Event::Ended { .. }) {
                    log::warn!("tool {tool} has said more after its answer to task {task}; it ends");
                }
                self.condemn();
            }
            (_, Event::Ready) => self.hand_over(slot),
            (Phase::Starting, Event::Ended { exit, .. }) => {
                let code = if exit.exit == ExitCode::SUCCESS { ExitCode::ANSWER_INVALID } else { exit.exit };
                self.fail_start(code, format!("tool {tool} has ended before it was ready"), slot);
            }
            (Phase::Starting, Event::Broken(why)) => {
                self.fail_start(ExitCode::PREPARE_FAILED, format!("tool {tool} {why}"), slot);
            }
            // The answer to a task that it does not have yet is a broken one.
            (Phase::Starting, Event::Done { .. }) => {}
            (Phase::Handed, Event::Done { exit_code, report, value }) => {
                staying.report = report;
                let max = self.config.value_bytes_max;
                match value {
                    Some(value) if value.len() > max => {
                        let length = value.len();
                        let error = format!(
                            "its value has {length} bytes, and at most {max} are accepted (VALUE_BYTES_MAX); return larger data in a file"
                        );
                        self.end_task(ExitCode::ANSWER_INVALID, error, slot);
                    }
                    value => self.answer(exit_code, String::new(), value, slot),
                }
            }
            (Phase::Handed, Event::Ended { has_read_task: false, .. }) if !staying.ends_tool => {
                self.end_task_unread(slot);
            }
            (Phase::Handed, Event::Ended { exit, .. }) => {
                self.condemn();
                match exit.exit {
                    ExitCode::SUCCESS => {
                        self.end_task(
                            ExitCode::ANSWER_INVALID,
                            format!("tool {tool} has ended without an answer"),
                            slot,
                        );
                    }
                    code => self.end_task(code, String::new(), slot),
                }
            }
            (Phase::Handed, Event::Broken(why)) => {
                self.condemn();
                self.end_task(ExitCode::ANSWER_INVALID, format!("tool {tool} {why}"), slot);
            }
        }
    }

    /// The tool cannot take the task. Its processes end with the run.
    fn fail_start(&mut self, exit_code: ExitCode, error: String, slot: &mut Slot) {
        self.condemn();
        let mut exited = self.known(&ChildExit::unused(exit_code));
        exited.result.error = error;
        self.set_ended();
        slot.handle_spawned(clock::now_with_suspend(), Err(SpawnFailure::Exited(Box::new(exited))));
    }

    /// The tool has ended before it has read the task: another process of it gets the task.
    fn end_task_unread(&mut self, slot: &mut Slot) {
        let Some(run) = &mut self.run else { return };
        let Some(staying) = &mut run.staying else { return };
        staying.restarts += 1;
        staying.is_warm = false;
        if staying.restarts > RESTARTS_MAX {
            self.condemn();
            let error = "its tool has ended again and again before it had read the task".to_owned();
            return self.end_task(ExitCode::ANSWER_INVALID, error, slot);
        }
        log::info!(
            "tool {} has ended before it had read task {}; starting it again",
            run.dispatch.tool,
            run.dispatch.task
        );
        self.stays.release(false, &mut self.processes);
        self.processes.end();
        self.prepare_again(slot);
    }

    /// The task has ended without an answer that counts.
    fn end_task(&mut self, exit_code: ExitCode, error: String, slot: &mut Slot) {
        self.answer(exit_code, error, None, slot);
    }

    fn answer(&mut self, exit_code: ExitCode, error: String, value: Option<Box<str>>, slot: &mut Slot) {
        let mut exited = self.known(&ChildExit::unused(exit_code));
        if !error.is_empty() {
            exited.result.error = error;
        }
        exited.result.value = value;
        exited.result.warm = self.staying().map(|staying| staying.is_warm);
        if self.staying().is_some_and(|staying| staying.ends_tool) {
            self.condemn();
        }
        self.set_ended();
        slot.handle_exited(clock::now_with_suspend(), exited);
    }

    fn set_ended(&mut self) {
        if let Some(staying) = self.staying() {
            staying.phase = Phase::Ended;
        }
    }

    /// No process of the run is left that must not be.
    pub(super) fn release_tool(&mut self, run: &mut Run, slot: &mut Slot) {
        let Some(staying) = &run.staying else { return };
        if let Some(places) = run.places(&self.stays) {
            self.serving.keep_copies(places);
        }
        self.stays.release(!staying.ends_tool, &mut self.processes);
        if let Some(cold) = run.staying.as_mut().and_then(|staying| staying.cold.take()) {
            self.remove_home(cold.home);
        }
        self.tell_warm(slot);
    }

    /// Tells the engine which tools stay, and removes the homes of those that do not any more.
    pub(super) fn tell_warm(&mut self, slot: &mut Slot) {
        let left = self.stays.take_left();
        let is_last = !left.is_empty() && self.stays.is_empty() && self.run.is_none();
        left.into_iter().for_each(|home| self.remove_home(home));
        let warm = self.stays.warm();
        if warm != self.warm {
            self.warm.clone_from(&warm);
            slot.handle_warm(warm);
        }
        if is_last {
            self.record.clear();
        }
    }

    fn remove_home(&mut self, home: crate::workspace::TaskDir) {
        self.preparer.remove_home(home, self.folders.remover());
    }

    /// The agent ends.
    pub(super) fn close_stays(&mut self) {
        self.stays.close(&mut self.processes);
        self.preparer.close();
    }
}

impl Runner {
    /// Reads the outputs of the run, whose root has ended like this.
    pub(super) fn known(&mut self, exit: &ChildExit) -> Exited {
        let places = self.run.as_ref().and_then(|run| run.places(&self.stays));
        let exited = ending::read(&self.config, exit, places);
        self.serving.handle_end(&exited.result);
        self.progress.end();
        exited
    }
}
