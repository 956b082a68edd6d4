//! The list of a worker: its commands, one after the other, and their results.
//!
//! | event | what follows |
//! |---|---|
//! | a list | its first task |
//! | `until` of the next task has passed | a result with that reason, and the task after it |
//! | started; cannot be started | the command runs ([`RunMachine`]); a result with the reason, and the next task |
//! | the command has ended, and no process of it is left | its outputs are read; then the next task |
//! | the last task has ended | CLAIM, while its result is on its way |
//! | the list is void, or the worker stops | the command is ended without a result |

use std::collections::VecDeque;

use super::{Effect, Output, StartFailure, Timer, Worker};
use crate::engine::result::{RunSpan, failed_to_start, not_started, result};
use crate::engine::seconds;
use crate::wire::{Order, TaskResult};
use base::lists::{ListTaskId, RunningName};
use base::{ExitCode, Now, Wall};
use proc::ladder::{RunMachine, Step, Terms};

/// The list that the worker has.
#[derive(Debug)]
pub(super) struct List {
    pub(super) name: RunningName,
    left: VecDeque<Order>,
    current: Option<Current>,
}

/// The command that runs.
#[derive(Debug)]
struct Current {
    id: ListTaskId,
    started: Wall,
    ended: Wall,
    state: State,
    /// Whether its result is not wanted.
    is_void: bool,
}

#[derive(Debug)]
enum State {
    Starting,
    Run(RunMachine<ExitCode>),
    Collecting(ExitCode),
}

impl List {
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.left.is_empty()
    }
}

impl Worker {
    pub(super) fn is_running(&self) -> bool {
        self.list.as_ref().is_some_and(|list| list.current.is_some())
    }

    /// Takes a new list.
    pub(super) fn take(&mut self, now: Now, name: RunningName, tasks: Vec<Order>) {
        self.claimed();
        self.journal.info(format!("{name}: {} tasks", tasks.len()));
        if self.stopping.is_none() {
            self.list = Some(List { name, left: tasks.into(), current: None });
        }
        self.go_on(now);
    }

    /// Begins the next task, or asks for the next list.
    pub(super) fn go_on(&mut self, now: Now) {
        self.leave_if_done(now);
        if self.stopping.is_some() || self.is_running() {
            return;
        }
        while !self.outbox.is_full() {
            let Some(list) = &mut self.list else { return self.claim() };
            let Some(order) = list.left.pop_front() else {
                self.list = None;
                continue;
            };
            if seconds(now.wall) > order.until {
                self.report(not_started(&order, now));
                continue;
            }
            let state = State::Starting;
            list.current = Some(Current { id: order.id, started: now.wall, ended: now.wall, state, is_void: false });
            return self.effects.push_back(Effect::Start(order));
        }
    }

    fn report(&mut self, result: TaskResult) {
        if let Some(list) = &self.list {
            self.outbox.push(list.name.clone(), result);
            self.deliver();
        }
    }

    fn current(&mut self) -> Option<&mut Current> {
        self.list.as_mut()?.current.as_mut()
    }

    /// The command has been started, or could not be.
    pub fn handle_started(&mut self, now: Now, outcome: Result<(), StartFailure>) {
        let Some(current) = self.current() else { return };
        match outcome {
            Ok(()) => {
                current.state = State::Run(RunMachine::started());
                if current.is_void {
                    self.step(now, |machine, terms| machine.end(now, terms));
                }
            }
            Err(StartFailure::Task(reason)) => {
                let (id, is_void) = (current.id, current.is_void);
                self.end_current();
                if !is_void {
                    self.report(failed_to_start(id, now, &reason));
                }
                self.go_on(now);
            }
            Err(StartFailure::Worker(reason)) => {
                self.end_current();
                self.stop(now, super::End::CannotRun(reason));
            }
        }
    }

    /// The command has ended; processes that it started may be left.
    pub fn handle_exited(&mut self, now: Now, exit: ExitCode) {
        let Some(current) = self.current() else { return };
        match &mut current.state {
            State::Run(machine) => machine.handle_end(exit),
            state => *state = State::Run(RunMachine::ended(exit)),
        }
        current.ended = now.wall;
        self.timers.clear(&Timer::Signal);
        self.effects.push_back(Effect::CheckTree);
    }

    /// Whether processes of the command are left.
    pub fn handle_tree(&mut self, now: Now, left: bool) {
        self.step(now, |machine, terms| machine.handle_tree(now, left, terms));
    }

    pub(super) fn signal_timer(&mut self, now: Now) {
        // Processes born since the last signal may have been missed, so it is repeated.
        self.step(now, |machine, terms| machine.handle_timeout(now, terms));
    }

    /// Ends the grace times of processes that are being ended.
    pub(super) fn hurry(&mut self, now: Now) {
        self.step(now, |machine, _| machine.hurry(now));
    }

    fn step(&mut self, now: Now, act: impl FnOnce(&mut RunMachine<ExitCode>, &Terms) -> Step) {
        let terms = Terms::of_worker(self.settings.kill_interval, self.settings.straggler_grace);
        let Some(Current { state: State::Run(machine), .. }) = self.current() else { return };
        let step = act(machine, &terms);
        let due = machine.due();
        self.timers.put(Timer::Signal, due);
        match step {
            Step::Wait => {}
            Step::Signal(signal) => self.effects.push_back(Effect::Signal(signal)),
            Step::Sweep(signal) => self.effects.extend([Effect::Signal(signal), Effect::CheckTree]),
            Step::Withstood => {
                self.journal.warn("processes of a command cannot be ended; they are left behind");
                self.collect(now);
            }
            Step::Over => self.collect(now),
        }
    }

    /// No process of the command is left.
    fn collect(&mut self, now: Now) {
        self.timers.clear(&Timer::Signal);
        let bytes_max = self.output_bytes_max;
        let Some(current) = self.current() else { return };
        let State::Run(RunMachine { end: Some(exit), .. }) = current.state else { return };
        if current.is_void {
            self.end_current();
            return self.go_on(now);
        }
        current.state = State::Collecting(exit);
        self.effects.push_back(Effect::Collect(bytes_max));
    }

    /// The outputs of the command, or why they cannot be read.
    pub fn handle_collected(&mut self, now: Now, outputs: Result<(Output, Output), String>) {
        let bytes_max = self.output_bytes_max;
        let Some(current) = self.current() else { return };
        let State::Collecting(exit) = current.state else { return };
        let (id, ran) = (current.id, RunSpan { started: seconds(current.started), ended: seconds(current.ended) });
        let (outputs, notes) = match outputs {
            Ok(outputs) => (outputs, Vec::new()),
            Err(reason) => (Default::default(), vec![format!("the outputs cannot be kept: {reason}")]),
        };
        self.report(result(id, ran, Some(exit), outputs, notes, bytes_max));
        self.end_current();
        self.go_on(now);
    }

    fn end_current(&mut self) {
        if let Some(list) = &mut self.list {
            list.current = None;
        }
    }

    /// The rest of the list is not for this worker: the command ends without a result.
    pub(super) fn give_up(&mut self, now: Now) {
        let Some(list) = &mut self.list else { return };
        list.left.clear();
        let Some(current) = &mut list.current else { return };
        // The outputs are complete and are being read, which takes no time.
        current.is_void = !matches!(current.state, State::Collecting(_));
        self.step(now, |machine, terms| machine.end(now, terms));
    }

    /// The worker has lost a list.
    pub(super) fn give_up_list(&mut self, now: Now, list: &RunningName) {
        if self.list.as_ref().is_some_and(|own| own.name == *list) {
            self.give_up(now);
        }
    }
}
