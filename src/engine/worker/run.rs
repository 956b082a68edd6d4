//! The run of the command for one prompt, from the request to the report, with the signals that end it.
//!
//! | state | event | next state |
//! |---|---|---|
//! | Free | REQUEST | Starting |
//! | Starting | started; cannot start | Run; the end of the worker |
//! | Run ([`RunMachine`]) | the command has ended, and no process of the tree is left or the rest cannot be ended | Keeping; Free, if there are no results |
//! | Keeping | the results are stored; cannot be stored | Free, with its report; the end of the worker |

use std::time::Duration;

use super::{Effect, End, ResultFolder, Timer, USAGE_LIMITED, Worker};
use crate::engine::run::{RunMachine, Step, Terms};
use crate::protocol::prompt::{FromWorker, Request, RequestId};
use crate::types::{ExitCode, Mono, Now};

#[derive(Debug)]
pub(super) enum Run {
    Free,
    Taken(Box<Taken>),
}

#[derive(Debug)]
pub(super) struct Taken {
    request: RequestId,
    /// Name of the prompt's file for people, as far as it is known.
    file: String,
    /// Moment of the acknowledgement, from which the master also counts the time.
    since: Mono,
    limit: Option<Duration>,
    state: State,
    /// Why it is being ended, if it is.
    ending: Option<Ending>,
}

#[derive(Debug)]
enum State {
    Starting,
    Run(RunMachine<Verdict>),
    Keeping { report: FromWorker },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Its result is not wanted.
    Void,
    /// It timed out.
    Overdue,
}

#[derive(Debug)]
enum Verdict {
    Done,
    Failed(String),
    Overdue(String),
    Limited(Option<Duration>),
    Void,
}

impl Run {
    pub(super) fn starting(now: Now, request: &Request) -> Self {
        Self::Taken(Box::new(Taken {
            request: request.id.clone(),
            file: request.file.clone().unwrap_or_else(|| format!("task_{}", request.id)),
            since: now.mono,
            limit: request.timeout,
            state: State::Starting,
            ending: None,
        }))
    }

    pub(super) const fn is_free(&self) -> bool {
        matches!(self, Self::Free)
    }

    pub(super) fn is_of(&self, id: &RequestId) -> bool {
        matches!(self, Self::Taken(run) if run.request == *id)
    }

    #[cfg(test)]
    pub(super) fn is_ending(&self) -> bool {
        let lives = |state: &State| matches!(state, State::Starting | State::Run(RunMachine { end: None, .. }));
        matches!(self, Self::Taken(run) if run.ending.is_some() || !lives(&run.state))
    }
}

impl Taken {
    /// A master that applies the time limit itself disconnects some seconds after it: the prompt has failed, and does not
    /// wait again.
    fn is_overdue(&self, now: Now) -> bool {
        self.limit.is_some_and(|limit| now.mono.since(self.since) >= limit)
    }
}

impl Worker {
    /// The command has been started, or could not be.
    pub fn handle_started(&mut self, now: Now, outcome: Result<(), String>) {
        let Run::Taken(run) = &mut self.run else { return };
        if let Err(reason) = outcome {
            // Another prompt would fail here as well, but this prompt may succeed elsewhere: it is returned to the master.
            self.run = Run::Free;
            self.exit(End::CannotRun(reason));
            return;
        }
        run.state = State::Run(RunMachine::started());
        if let Some(limit) = run.limit {
            self.timers.set(Timer::Limit, run.since + limit);
        }
        if run.ending.is_some() {
            self.terminate(now);
        }
    }

    /// The command has ended; processes that it started may be left. `retry_after` is its request after a limit.
    pub fn handle_exited(&mut self, exit: ExitCode, retry_after: Option<Duration>) {
        let Run::Taken(run) = &mut self.run else { return };
        let State::Run(machine @ RunMachine { end: None, .. }) = &mut run.state else { return };
        let verdict = match (run.ending, exit) {
            (Some(Ending::Void), _) => Verdict::Void,
            (Some(Ending::Overdue), _) => Verdict::Overdue(overdue_reason(run.limit)),
            (None, ExitCode::SUCCESS) => Verdict::Done,
            (None, USAGE_LIMITED) => Verdict::Limited(retry_after),
            (None, ExitCode(code)) => Verdict::Failed(if code < 0 {
                format!("ended by signal {}", code.unsigned_abs())
            } else {
                format!("exit code {code}")
            }),
        };
        *machine = RunMachine::ended(verdict);
        self.timers.clear(&Timer::Limit);
        self.timers.clear(&Timer::Signal);
        self.effects.push_back(Effect::CheckTree);
    }

    /// Whether any process of the tree is left.
    pub fn handle_tree(&mut self, now: Now, left: bool) {
        self.step(now, |machine, terms| machine.handle_tree(now, left, terms));
    }

    /// Carries out the next step for the processes of the run after an event.
    fn step(&mut self, now: Now, event: impl FnOnce(&mut RunMachine<Verdict>, &Terms) -> Step) {
        let terms = Terms::of_worker(self.settings.kill_interval, self.settings.straggler_grace);
        let Run::Taken(run) = &mut self.run else { return };
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
        let Run::Taken(mut run) = std::mem::replace(&mut self.run, Run::Free) else { return };
        let State::Run(RunMachine { end: Some(verdict), .. }) = run.state else {
            unreachable!("a run is settled before its end")
        };
        let (folder, report) = match verdict {
            Verdict::Done => (ResultFolder::Done, FromWorker::Done { text: std::mem::take(&mut run.file) }),
            Verdict::Overdue(reason) => (ResultFolder::Overdue, FromWorker::Failed { reason }),
            Verdict::Failed(reason) => (ResultFolder::Failed, FromWorker::Failed { reason }),
            Verdict::Limited(retry_after) => return self.discard(now, Some(retry_after)),
            Verdict::Void => return self.discard(now, None),
        };
        run.state = State::Keeping { report };
        self.run = Run::Taken(run);
        self.effects.push_back(Effect::StoreResults(folder));
    }

    /// The prompt waits again; `limited` if the command has hit a limit, with the length that it names.
    fn discard(&mut self, now: Now, limited: Option<Option<Duration>>) {
        self.effects.push_back(Effect::Discard);
        if let Some(retry_after) = limited.filter(|_| self.link.is_joined()) {
            let reason = "the command says that it is limited".to_owned();
            self.send(FromWorker::UsageLimited { retry_after, reason });
            self.limited(now, retry_after.unwrap_or(self.settings.limited_pause));
        }
        self.after_run();
    }

    /// The results of the run are in place, or cannot be stored. If the master has gone meanwhile, it has put the prompt
    /// back.
    pub fn handle_results_stored(&mut self, outcome: Result<(), String>) {
        let (report, is_overdue) = match std::mem::replace(&mut self.run, Run::Free) {
            Run::Taken(run) => match run.state {
                State::Keeping { report } => (report, run.ending == Some(Ending::Overdue)),
                state => unreachable!("results are stored in {state:?}"),
            },
            Run::Free => return,
        };
        if let Err(reason) = outcome {
            // The disk is full or broken: the results of further prompts would be lost as well.
            self.exit(End::CannotStoreResults(reason));
            return;
        }
        let is_joined = self.link.is_joined();
        // The master applies the time limit of an overdue run itself.
        if is_joined || is_overdue {
            self.tally.all += 1;
            self.tally.failed += u64::from(matches!(report, FromWorker::Failed { .. }));
        }
        if is_joined {
            self.send(report);
        }
        self.after_run();
    }

    /// The result is not wanted: the command must end. A command that has ended by itself while the master is there keeps
    /// its result.
    pub(super) fn void_run(&mut self, now: Now) {
        let connected = self.link.is_joined();
        let Run::Taken(run) = &mut self.run else { return };
        let overdue = !connected && run.is_overdue(now);
        match &mut run.state {
            State::Run(RunMachine { end: Some(_), .. }) if connected => {}
            State::Run(RunMachine { end: Some(verdict), .. }) => {
                *verdict = if overdue { Verdict::Overdue(overdue_reason(run.limit)) } else { Verdict::Void };
            }
            State::Keeping { .. } => {}
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
        let Run::Taken(run) = &mut self.run else { return };
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

fn overdue_reason(limit: Option<Duration>) -> String {
    format!("it took longer than {} s", limit.unwrap_or_default().as_secs_f64())
}
