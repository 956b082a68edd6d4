//! The run of the command for one prompt, from the request to the report, with the signals that end it.
//!
//! | state | event | next state |
//! |---|---|---|
//! | Free | REQUEST | Starting |
//! | Starting | started; cannot start | Running; the end of the worker |
//! | Running | the command has ended | Ended |
//! | Ended | nothing is left of the tree, or it cannot be ended | Keeping; Free, if there is nothing to keep |
//! | Keeping | the results are kept; cannot be kept | Free, with its report; the end of the worker |

use std::time::Duration;

use super::{Effect, End, Kept, Signal, Timer, USAGE_LIMITED, Worker};
use crate::protocol::prompt::{FromWorker, Request, RequestId};
use crate::types::{ExitCode, Mono, Now};

/// Between two looks at a tree that SIGKILL has not emptied yet.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);

/// SIGKILLs to what is left before the run counts as over: ten seconds. Only what runs as another user, or waits for a device,
/// outlives the first, and no prompt is to wait for that.
const SWEEPS_MAX: u32 = 100;

#[derive(Debug)]
pub(super) enum Run {
    Free,
    Taken(Box<Taken>),
}

#[derive(Debug)]
pub(super) struct Taken {
    request: RequestId,
    /// For people: the name of the prompt's file, as far as it is known.
    file: String,
    /// When it was acknowledged: from then on the master counts, too.
    since: Mono,
    limit: Option<Duration>,
    state: State,
    /// Why it is being ended, if it is.
    ending: Option<Ending>,
}

#[derive(Debug)]
enum State {
    Starting,
    Running,
    Ended { verdict: Verdict, sweeps: Option<u32> },
    Keeping { report: FromWorker },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Nobody wants its result.
    Void,
    /// It took too long.
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
        let over = |state: &State| matches!(state, State::Ended { .. } | State::Keeping { .. });
        matches!(self, Self::Taken(run) if run.ending.is_some() || over(&run.state))
    }
}

impl Taken {
    /// A master that counts the time itself cuts the connection some seconds after it is over: its prompt has failed, and does
    /// not wait again.
    fn is_overdue(&self, now: Now) -> bool {
        self.limit.is_some_and(|limit| now.mono.since(self.since) >= limit)
    }
}

impl Worker {
    /// The command runs, or cannot be started.
    pub fn handle_started(&mut self, now: Now, outcome: Result<(), String>) {
        let Run::Taken(run) = &mut self.run else { return };
        if let Err(reason) = outcome {
            // Another prompt would fare no better here, but it may elsewhere: the master gets it back.
            self.run = Run::Free;
            self.exit(End::CannotRun(reason));
            return;
        }
        run.state = State::Running;
        if let Some(limit) = run.limit {
            self.timers.set(Timer::Limit, run.since + limit);
        }
        if run.ending.is_some() {
            self.terminate(now);
        }
    }

    /// The command has ended; what it started may still be there. `retry_after` is what it says of a limit.
    pub fn handle_exited(&mut self, exit: ExitCode, retry_after: Option<Duration>) {
        let Run::Taken(run) = &mut self.run else { return };
        if !matches!(run.state, State::Running) {
            return;
        }
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
        run.state = State::Ended { verdict, sweeps: None };
        self.timers.clear(&Timer::Limit);
        self.timers.clear(&Timer::Ladder);
        self.effects.push_back(Effect::CheckTree);
    }

    /// Whether anything of the tree is left.
    pub fn handle_tree(&mut self, now: Now, left: bool) {
        let Run::Taken(run) = &mut self.run else { return };
        let State::Ended { sweeps, .. } = &mut run.state else { return };
        if !left {
            self.settle(now);
        } else if sweeps.is_none() {
            *sweeps = Some(0);
            self.effects.push_back(Effect::Signal(Signal::Terminate));
            self.timers.set(Timer::Sweep, now.mono + self.settings.straggler_grace);
        }
    }

    /// The run is over: results first, then the report.
    fn settle(&mut self, now: Now) {
        self.timers.clear(&Timer::Sweep);
        let Run::Taken(mut run) = std::mem::replace(&mut self.run, Run::Free) else { return };
        let State::Ended { verdict, .. } = run.state else { unreachable!("a run is settled before its end") };
        let (kept, report) = match verdict {
            Verdict::Done => (Kept::Done, FromWorker::Done { text: std::mem::take(&mut run.file) }),
            Verdict::Overdue(reason) => (Kept::Overdue, FromWorker::Failed { reason }),
            Verdict::Failed(reason) => (Kept::Failed, FromWorker::Failed { reason }),
            Verdict::Limited(retry_after) => return self.discard(now, Some(retry_after)),
            Verdict::Void => return self.discard(now, None),
        };
        run.state = State::Keeping { report };
        self.run = Run::Taken(run);
        self.effects.push_back(Effect::Keep(kept));
    }

    /// The prompt waits again; `limited` if that is because the command has met a limit, with what it says of its length.
    fn discard(&mut self, now: Now, limited: Option<Option<Duration>>) {
        self.effects.push_back(Effect::Discard);
        if let Some(retry_after) = limited.filter(|_| self.link.is_joined()) {
            let reason = "the command says that it is limited".to_owned();
            self.send(FromWorker::UsageLimited { retry_after, reason });
            self.limited(now, retry_after.unwrap_or(self.settings.limited_pause));
        }
        self.after_run();
    }

    /// The results of the run are in place, or cannot be kept. A master that is gone meanwhile has given the prompt back.
    pub fn handle_kept(&mut self, outcome: Result<(), String>) {
        let (report, is_overdue) = match std::mem::replace(&mut self.run, Run::Free) {
            Run::Taken(run) => match run.state {
                State::Keeping { report } => (report, run.ending == Some(Ending::Overdue)),
                state => unreachable!("results are kept in {state:?}"),
            },
            Run::Free => return,
        };
        if let Err(reason) = outcome {
            // The disk is full, or broken: whatever else is worked on would be lost as well.
            self.exit(End::CannotKeep(reason));
            return;
        }
        let is_joined = self.link.is_joined();
        // The master counts the time of an overdue one itself.
        if is_joined || is_overdue {
            self.tally.all += 1;
            self.tally.failed += u64::from(matches!(report, FromWorker::Failed { .. }));
        }
        if is_joined {
            self.send(report);
        }
        self.after_run();
    }

    /// Nobody wants the result: the command is to end. What has ended by itself while the master is there keeps its result.
    pub(super) fn void(&mut self, now: Now) {
        let connected = self.link.is_joined();
        let Run::Taken(run) = &mut self.run else { return };
        let overdue = !connected && run.is_overdue(now);
        match &mut run.state {
            State::Ended { .. } if connected => {}
            State::Ended { verdict, .. } => {
                *verdict = if overdue { Verdict::Overdue(overdue_reason(run.limit)) } else { Verdict::Void };
            }
            State::Keeping { .. } => {}
            State::Starting | State::Running => {
                let begun = run.ending.is_some() || matches!(run.state, State::Starting);
                run.ending.get_or_insert(if overdue { Ending::Overdue } else { Ending::Void });
                if !begun {
                    self.terminate(now);
                }
            }
        }
    }

    fn terminate(&mut self, now: Now) {
        self.timers.clear(&Timer::Limit);
        self.effects.push_back(Effect::Signal(Signal::Terminate));
        self.timers.set(Timer::Ladder, now.mono + self.settings.kill_interval);
    }

    /// No more time for what is to end.
    pub(super) fn hurry(&mut self, now: Now) {
        for timer in [Timer::Ladder, Timer::Sweep] {
            if self.timers.is_set(&timer) {
                self.timers.set(timer, now.mono);
            }
        }
    }

    pub(super) fn run_timer(&mut self, now: Now, timer: Timer) {
        let Run::Taken(run) = &mut self.run else { return };
        match (timer, &mut run.state) {
            (Timer::Limit, State::Running) if run.ending.is_none() => {
                run.ending = Some(Ending::Overdue);
                self.terminate(now);
            }
            (Timer::Ladder, State::Running) => {
                self.effects.push_back(Effect::Signal(Signal::Kill));
                // Once more and again: what was just born may have been missed.
                self.timers.set(Timer::Ladder, now.mono + self.settings.kill_interval);
            }
            (Timer::Sweep, State::Ended { sweeps, .. }) => {
                let count = sweeps.map_or(1, |count| count + 1);
                *sweeps = Some(count);
                if count > SWEEPS_MAX {
                    log::error!("processes of the command are left that cannot be ended");
                    self.settle(now);
                    return;
                }
                self.effects.push_back(Effect::Signal(Signal::Kill));
                self.effects.push_back(Effect::CheckTree);
                self.timers.set(Timer::Sweep, now.mono + SWEEP_INTERVAL);
            }
            _ => {}
        }
    }
}

fn overdue_reason(limit: Option<Duration>) -> String {
    format!("it took longer than {} s", limit.unwrap_or_default().as_secs_f64())
}
