//! The run of the command for one prompt, from the request to the report, with the signals that end it.
//!
//! | state | event | next state |
//! |---|---|---|
//! | Free | REQUEST | Starting |
//! | Starting | started; cannot start | Run; the end of the worker |
//! | Run ([`RunMachine`]) | the command has ended, and no process of the tree is left or the rest cannot be ended | Keeping; Free, if there are no results |
//! | Keeping | the results are stored; cannot be read or stored | Reporting; the same, with a report that gives the prompt back |
//! | Reporting | REPORT_ACK; the report is sent to an original | Free |

use std::time::Duration;

use super::phases::{Ending, Report, Run, State, Verdict};
use super::{Effect, End, ResultFolder, Sign, StartError, StoreError, Timer, USAGE_LIMITED, Worker};
use crate::wire::FromWorker;
use base::{ExitCode, Now, Usd};
use proc::ladder::{RunMachine, Step, Terms};

/// Signals by which another process has ended a command, or the kernel when memory ran out. The prompt is not to blame. At the shutdown
/// of a machine every process gets SIGTERM, perhaps before the worker. An exit code of 128 + 9 or 128 + 15 may be the command's own
/// choice, and does not count, except for [`Sign::OutOfMemory`].
const KILLED: [ExitCode; 2] = [ExitCode(-9), ExitCode(-15)];

impl Worker {
    /// The command has been started, or could not be.
    pub fn handle_started(&mut self, now: Now, outcome: Result<(), StartError>) {
        let Run::Active(run) = &mut self.run else { return };
        match outcome {
            Ok(()) => {}
            // Another prompt would fail here as well, but this prompt may succeed elsewhere: it is returned to the master.
            Err(StartError::Command(reason)) => {
                self.run = Run::Free;
                self.exit(End::CannotRun(reason));
                return;
            }
            Err(StartError::Prompt(reason)) => {
                self.journal.warn(format!("{} cannot be run: {reason}", run.file));
                return self.conclude(now, Report::of(FromWorker::Failed { reason, is_loss: false }));
            }
            Err(StartError::Disk(_)) if run.ending.is_some() => return self.drop_run(),
            Err(StartError::Disk(reason)) => return self.pause_for(now, reason),
        }
        run.state = State::Run(RunMachine::started());
        if let Some(limit) = run.limit {
            self.timers.set(Timer::Limit, run.since + limit);
        }
        if run.ending.is_some() {
            self.terminate(now);
        }
    }

    /// The cost of the run, if its output contains it; before [`Self::handle_exited`].
    pub fn handle_cost(&mut self, cost: Option<Usd>) {
        if let Run::Active(run) = &mut self.run {
            run.cost = cost;
        }
    }

    /// The command has ended; processes that it started may be left. `sign` is the sign of a limit in its output.
    pub fn handle_exited(&mut self, now: Now, exit: ExitCode, sign: Option<Sign>) {
        let Run::Active(run) = &mut self.run else { return };
        let State::Run(machine @ RunMachine { end: None, .. }) = &mut run.state else { return };
        let (settings, brake) = (&self.settings, &mut self.brake);
        // Any other master treats a loss as a failure, whose results a person looks for.
        let takes_losses = self.welcome.is_some();
        let verdict = match (run.ending, exit, sign) {
            (Some(Ending::Void), ..) => Verdict::Void,
            (Some(Ending::Overdue), ..) => Verdict::Overdue(overdue_reason(run.limit)),
            (None, _, Some(Sign::Limited { retry_after, text })) => {
                let pause = retry_after.unwrap_or_else(|| brake.pause(&settings.brake, settings.limited_pause));
                Verdict::Limited(pause, text)
            }
            (None, _, Some(Sign::Trouble(text))) => {
                Verdict::Braked(brake.pause(&settings.brake, settings.limited_pause), text)
            }
            (None, USAGE_LIMITED, None) => {
                let pause = brake.pause(&settings.brake, settings.limited_pause);
                Verdict::Limited(pause, "the command says that it is limited".to_owned())
            }
            (None, ExitCode::SUCCESS, None) => {
                brake.release();
                Verdict::Done
            }
            (None, ExitCode(code), sign @ (None | Some(Sign::OutOfMemory))) => {
                let reason = match code {
                    ..0 => format!("ended by signal {}", code.unsigned_abs()),
                    _ => format!("exit code {code}"),
                };
                if brake.failed(&settings.brake, now.mono.since(run.since)) {
                    let pause = brake.pause(&settings.brake, settings.limited_pause);
                    Verdict::Braked(pause, format!("{} failures in quick succession: {reason}", settings.brake.fails))
                } else if sign.is_some() && takes_losses {
                    Verdict::Lost(format!("the kernel has killed a process for want of memory: {reason}"))
                } else if KILLED.contains(&exit) && takes_losses {
                    Verdict::Lost(format!("the command was killed from outside: {reason}"))
                } else {
                    Verdict::Failed(reason)
                }
            }
        };
        machine.handle_end(verdict);
        self.timers.clear(&Timer::Limit);
        self.timers.clear(&Timer::Signal);
        self.effects.push_back(Effect::CheckTree);
    }

    /// The tree of the run was checked; `left` if it still has a process.
    pub fn handle_tree(&mut self, now: Now, left: bool) {
        self.step(now, |machine, terms| machine.handle_tree(now, left, terms));
    }

    /// Carries out the next step for the processes of the run after an event.
    fn step(&mut self, now: Now, event: impl FnOnce(&mut RunMachine<Verdict>, &Terms) -> Step) {
        let terms = Terms::of_worker(self.settings.kill_interval, self.settings.straggler_grace);
        let Run::Active(run) = &mut self.run else { return };
        let State::Run(machine) = &mut run.state else { return };
        let step = event(machine, &terms);
        self.timers.put(Timer::Signal, machine.due());
        match step {
            Step::Wait => {}
            Step::Signal(signal) => self.effects.push_back(Effect::Signal(signal)),
            Step::Sweep(signal) => self.effects.extend([Effect::Signal(signal), Effect::CheckTree]),
            Step::Over => self.settle(now),
            Step::Withstood => {
                self.journal.error("processes of the run are left that cannot be ended");
                self.settle(now);
            }
        }
    }

    /// The run has ended: results first, then the report.
    fn settle(&mut self, now: Now) {
        let Run::Active(mut run) = std::mem::replace(&mut self.run, Run::Free) else { return };
        let State::Run(RunMachine { end: Some(verdict), .. }) = std::mem::replace(&mut run.state, State::Starting)
        else {
            unreachable!("a run is settled before its end")
        };
        let (folder, report) = match verdict {
            Verdict::Done => (ResultFolder::Done, FromWorker::Done { text: std::mem::take(&mut run.file) }),
            Verdict::Overdue(reason) => (ResultFolder::Overdue, failed(reason)),
            Verdict::Failed(reason) => (ResultFolder::Failed, failed(reason)),
            Verdict::Lost(reason) => {
                self.effects.push_back(Effect::Discard);
                self.run = Run::Active(run);
                return self.conclude(now, Report::of(FromWorker::Failed { reason, is_loss: true }));
            }
            Verdict::Limited(pause, reason) => return self.give_back(now, run, pause, reason, false),
            Verdict::Braked(pause, reason) => return self.give_back(now, run, pause, reason, true),
            Verdict::Void => {
                self.effects.push_back(Effect::Discard);
                return self.after_run();
            }
        };
        run.state = State::Keeping { report };
        self.run = Run::Active(run);
        self.effects.push_back(Effect::StoreResults(folder));
    }

    /// The results of the run are in place, or cannot be stored: then the disk is full or broken, and the results of the next
    /// run would be lost as well; or the command has removed them.
    pub fn handle_results_stored(&mut self, now: Now, outcome: Result<(), StoreError>) {
        let Run::Active(run) = &mut self.run else { return };
        let State::Keeping { report } = &run.state else { unreachable!("results are stored in {:?}", run.state) };
        match outcome {
            Ok(()) => {
                let report = Report::of(report.clone());
                self.conclude(now, report);
            }
            Err(StoreError::Unread(reason)) => {
                let report = report.clone();
                self.conclude_unread(now, report, reason);
            }
            Err(StoreError::Disk(reason)) => self.pause_for(now, reason),
        }
    }

    /// The result is not wanted: the command must end. A command that has ended by itself while the master is connected keeps its
    /// result.
    pub(super) fn void_run(&mut self, now: Now) {
        let connected = self.link.is_joined();
        self.timers.clear(&Timer::Lease);
        let Run::Active(run) = &mut self.run else { return };
        let overdue = !connected && run.is_overdue(now);
        match &mut run.state {
            State::Run(RunMachine { end: Some(_), .. }) if connected => {}
            State::Run(RunMachine { end: Some(verdict), .. }) => {
                *verdict = if overdue { Verdict::Overdue(overdue_reason(run.limit)) } else { Verdict::Void };
            }
            State::Keeping { .. } | State::Reporting(_) if connected => {}
            State::Keeping { .. } => drop(run.ending.get_or_insert(Ending::Void)),
            State::Reporting(_) => self.drop_report(),
            State::Starting | State::Run(_) => {
                run.ending.get_or_insert(if overdue { Ending::Overdue } else { Ending::Void });
                self.terminate(now);
            }
        }
    }

    /// Ends the command, as soon as it is running.
    fn terminate(&mut self, now: Now) {
        self.timers.clear(&Timer::Limit);
        self.step(now, |machine, terms| machine.end(now, terms));
    }

    /// Ends the grace times of processes that are being ended.
    pub(super) fn hurry(&mut self, now: Now) {
        self.step(now, |machine, _| machine.hurry(now));
    }

    pub(super) fn run_timer(&mut self, now: Now, timer: Timer) {
        let Run::Active(run) = &mut self.run else { return };
        match (timer, &mut run.state) {
            (Timer::Limit, State::Run(_)) if run.ending.is_none() => {
                run.ending = Some(Ending::Overdue);
                self.terminate(now);
            }
            // Processes born since the last signal may have been missed, so it is repeated.
            (Timer::Signal, State::Run(_)) => {
                self.step(now, |machine, terms| machine.handle_timeout(now, terms));
            }
            _ => {}
        }
    }
}

const fn failed(reason: String) -> FromWorker {
    FromWorker::Failed { reason, is_loss: false }
}

fn overdue_reason(limit: Option<Duration>) -> String {
    format!("it took longer than {} s", limit.unwrap_or_default().as_secs_f64())
}
