//! The run of a program, from the claim to its outcome, with the signals that end it.

use super::{Assignment, Effect, Outcome, Phase, Timer, Worker};
use base::Now;
use base::tdf::Fence;
use proc::ladder::{RunMachine, StartFailure, Step, Terms};

#[derive(Debug)]
pub(super) struct Run {
    task: Assignment,
    state: State,
    /// The reason for an early end.
    ending: Option<Ending>,
}

#[derive(Debug)]
enum State {
    Preparing,
    Starting,
    Run(RunMachine<()>),
    Collecting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    TimedOut,
    /// Another worker has the task.
    Lost,
    /// The worker stops.
    Stopped,
}

impl Run {
    pub(super) const fn fence(&self) -> &Fence {
        &self.task.fence
    }
}

impl Worker {
    pub(super) fn start(&mut self, now: Now, task: Assignment) {
        // The limit counts from the claim on, as at the server.
        self.timers.put(Timer::Limit, task.timeout.map(|limit| now.mono + limit));
        let doubted = self.doubts.is_due(now.mono, &task.program);
        self.effects.push_back(Effect::Prepare { task: Box::new(task.clone()), doubted });
        self.phase = Phase::Busy(Box::new(Run { task, state: State::Preparing, ending: None }));
    }

    /// The program is there, or cannot be fetched.
    pub fn handle_prepared(&mut self, now: Now, outcome: Result<(), String>) {
        let Phase::Busy(run) = &mut self.phase else { return };
        if !matches!(run.state, State::Preparing) {
            return;
        }
        match (run.ending, outcome) {
            (Some(ending), _) => self.ended_early(now, ending),
            (None, Ok(())) => {
                run.state = State::Starting;
                self.effects.push_back(Effect::Start);
            }
            (None, Err(reason)) => self.collect(Outcome::Unstarted(reason)),
        }
    }

    /// The program runs, or cannot be started.
    pub fn handle_started(&mut self, now: Now, outcome: Result<(), StartFailure>) {
        let Phase::Busy(run) = &mut self.phase else { return };
        match outcome {
            Ok(()) => {
                run.state = State::Run(RunMachine::started());
                if run.ending.is_some() {
                    self.terminate(now);
                }
            }
            Err(StartFailure::Task(reason)) => self.collect(Outcome::Unstarted(reason)),
            Err(StartFailure::Worker(reason)) => {
                self.timers.clear(&Timer::Limit);
                self.stopping.get_or_insert_default().broken = Some(reason);
                self.ended_early(now, Ending::Stopped);
            }
        }
    }

    /// The program has ended; processes that it started may be left.
    pub fn handle_exited(&mut self) {
        let Phase::Busy(run) = &mut self.phase else { return };
        let State::Run(machine @ RunMachine { end: None, .. }) = &mut run.state else { return };
        machine.handle_end(());
        self.timers.clear(&Timer::Limit);
        self.timers.clear(&Timer::Signal);
        self.effects.push_back(Effect::CheckTree);
    }

    /// Whether anything of the tree is left.
    pub fn handle_tree(&mut self, now: Now, left: bool) {
        self.step(now, |machine, terms| machine.handle_tree(now, left, terms));
    }

    /// Carries out the next step for the processes of the run after an event.
    fn step(&mut self, now: Now, event: impl FnOnce(&mut RunMachine<()>, &Terms) -> Step) {
        let terms = Terms::of_worker(self.settings.kill_interval, self.settings.straggler_grace);
        let Phase::Busy(run) = &mut self.phase else { return };
        let State::Run(machine) = &mut run.state else { return };
        let step = event(machine, &terms);
        self.timers.put(Timer::Signal, machine.due());
        match step {
            Step::Wait => {}
            Step::Signal(signal) => self.effects.push_back(Effect::Signal(signal)),
            Step::Sweep(signal) => self.effects.extend([Effect::Signal(signal), Effect::CheckTree]),
            // Processes that survive every signal do not keep the worker from its next task.
            Step::Over | Step::Withstood => match run.ending {
                None => self.collect(Outcome::Executed),
                Some(ending) => self.ended_early(now, ending),
            },
        }
    }

    /// No process is left of a run that was ended.
    fn ended_early(&mut self, now: Now, ending: Ending) {
        let Phase::Busy(run) = &self.phase else { return };
        let (fence, limit) = (run.task.fence.clone(), run.task.timeout.unwrap_or_default());
        match ending {
            Ending::TimedOut => self.collect(Outcome::TimedOut(limit)),
            Ending::Lost => {
                self.timers.clear(&Timer::Limit);
                self.effects.push_back(Effect::Discard);
                self.phase = Phase::Resting { is_idle: false };
                self.rest(now, self.settings.pause_after_failure);
            }
            Ending::Stopped => {
                self.timers.clear(&Timer::Limit);
                self.effects.push_back(Effect::Discard);
                self.give_back(now, fence);
            }
        }
    }

    fn collect(&mut self, outcome: Outcome) {
        let Phase::Busy(run) = &mut self.phase else { return };
        run.state = State::Collecting;
        self.timers.clear(&Timer::Limit);
        self.effects.push_back(Effect::Collect(outcome));
    }

    /// The outputs of the run have been read; a run with an error output has failed.
    pub fn handle_collected(&mut self, now: Now, has_failed: bool) {
        let Phase::Busy(run) = &self.phase else { return };
        if !matches!(run.state, State::Collecting) {
            return;
        }
        let fence = run.task.fence.clone();
        self.doubts.handle_end(&run.task.program, has_failed);
        self.report(now, fence, has_failed);
    }

    /// Ends the program, whose result is not wanted or would come too late. A program that has ended by itself keeps its result,
    /// unless the task is lost.
    pub(super) fn end_run(&mut self, now: Now, ending: Ending) {
        let Phase::Busy(run) = &mut self.phase else { return };
        match &run.state {
            State::Run(RunMachine { end: Some(()), .. }) | State::Collecting if ending != Ending::Lost => {}
            // The remaining processes are being ended already.
            State::Run(RunMachine { end: Some(()), .. }) | State::Collecting => run.ending = Some(ending),
            State::Preparing => {
                if run.ending.replace(ending).is_none() {
                    self.effects.push_back(Effect::CancelPreparation);
                }
                self.timers.clear(&Timer::Limit);
            }
            State::Starting | State::Run(_) => {
                run.ending.get_or_insert(ending);
                self.terminate(now);
            }
        }
    }

    /// Ends the program, or does so when it has started.
    fn terminate(&mut self, now: Now) {
        self.timers.clear(&Timer::Limit);
        self.step(now, |machine, terms| machine.end(now, terms));
    }

    /// Ends the grace time of processes that are being ended.
    pub(super) fn hurry(&mut self, now: Now) {
        self.step(now, |machine, _| machine.hurry(now));
    }

    pub(super) fn run_timer(&mut self, now: Now, timer: Timer) {
        match timer {
            Timer::Limit => self.end_run(now, Ending::TimedOut),
            // The last signal may have missed a process that was born meanwhile.
            _ => self.step(now, |machine, terms| machine.handle_timeout(now, terms)),
        }
    }
}
