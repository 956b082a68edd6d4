//! The phases of one run, from the job to the clean slot, with the kill ladder.
//!
//! | state | event | next state |
//! |---|---|---|
//! | Free | a job | Preparing |
//! | Preparing | prepared | Starting, or Ended when it failed or is to be killed |
//! | Starting | started; did not start | Running; Ended |
//! | Running | run.sh has ended, or may not be ended ([`super::foreign`]) | Ended |
//! | Ended | nothing is left of the tree | Removing |
//! | Removing | the folder is gone | Finished |
//! | Finished | reported, or nobody wants a report | Free, or Held |
//! | Held | nothing is left of the tree | Free |

use std::time::Duration;

use super::{Effect, Exited, Failure, Hold, Signal, Slot, SpawnFailure, Timer};
use super::{hold::lease_over, outcome::killed_preparing};
use crate::protocol::agent::Job;
use crate::protocol::request::Report;
use crate::types::{ExitCode, Mono, Now, Phase, PhaseTimes, Round, RunResult, TaskId};

/// ETXTBSY lasts as long as another process is between its fork and its exec, some microseconds; five tries of two
/// milliseconds outlast it (HAZARDS row P5).
const RESPAWN_DELAY: Duration = Duration::from_millis(2);
const RESPAWNS_MAX: u32 = 5;

/// Between two looks at a tree that SIGKILL has not emptied yet.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);

/// The same when some of it may not be signalled: its end is told by SIGCHLD, and each look is a scan of `/proc`.
const REFUSED_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) enum Run {
    #[default]
    Free,
    Taken(Box<Taken>),
    /// The run is over, and a process of it is not: see [`super::foreign`].
    Held,
}

#[derive(Debug)]
pub(super) struct Taken {
    pub(super) job: Job,
    pub(super) state: State,
    times: PhaseTimes,
    /// Since when run.sh runs.
    since: Option<Mono>,
    /// Signals sent so far, once the run is to be ended.
    pub(super) ladder: Option<u32>,
    fate: Fate,
    /// Until when an exclusive run may go on; `None` for others, and when nothing is left of it.
    hold: Option<Hold>,
    /// Whether a process of it could not be signalled.
    pub(super) refused: bool,
    /// Whether that is run.sh itself, which counts as ended and may still go on.
    pub(super) unended: bool,
    /// Whether that process keeps the slot when the run is over.
    pub(super) held: bool,
}

/// What becomes of the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is reported.
    Reported,
    /// It was ended because of its lease. The controller waits for that word before another round.
    GivenUp,
    /// The controller does not want to hear of it.
    Dropped,
}

#[derive(Debug, PartialEq)]
pub(super) enum State {
    Preparing,
    Starting { tries: u32 },
    Running,
    Ended { result: RunResult, sweep: Option<Signal> },
    Removing { result: RunResult },
    Finished { result: RunResult },
}

impl Run {
    pub(super) fn start(&mut self, now: Now, job: Job) {
        let times = PhaseTimes { prepare: Some(now.wall), ..PhaseTimes::default() };
        let (state, fate) = (State::Preparing, Fate::Reported);
        let [refused, unended, held] = [false; 3];
        let (since, ladder, hold) = (None, None, None);
        let run = Taken { job, state, times, since, ladder, fate, hold, refused, unended, held };
        *self = Self::Taken(Box::new(run));
    }

    /// The run is over.
    pub(super) fn clear(&mut self) {
        *self = if self.taken().is_some_and(|run| run.held) { Self::Held } else { Self::Free };
    }

    pub(super) const fn is_free(&self) -> bool {
        matches!(self, Self::Free)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.taken().is_some_and(|run| matches!(run.state, State::Finished { .. }))
    }

    fn taken(&self) -> Option<&Taken> {
        match self {
            Self::Free | Self::Held => None,
            Self::Taken(run) => Some(run),
        }
    }

    pub(super) fn id(&self) -> Option<(TaskId, Round)> {
        self.taken().map(|run| (run.job.task, run.job.round))
    }

    pub(super) fn slack(&self) -> Option<Duration> {
        self.taken().map(|run| run.job.slack)
    }

    /// Its result will not be reported.
    pub(super) fn unwanted(&mut self) {
        self.set_fate(Fate::Dropped);
    }

    pub(super) fn set_fate(&mut self, fate: Fate) {
        if let Self::Taken(run) = self
            && run.fate != Fate::Dropped
        {
            run.fate = fate;
        }
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.taken().is_some_and(|run| run.fate == Fate::GivenUp)
    }

    pub(super) fn is_leased(&self) -> bool {
        self.taken().is_some_and(|run| run.job.lease.is_some())
    }

    /// The term of its lease.
    pub(super) fn term(&self) -> Duration {
        self.taken().and_then(|run| run.job.lease).unwrap_or_default()
    }

    pub(super) fn hold(&self) -> Option<Hold> {
        self.taken().and_then(|run| run.hold)
    }

    pub(super) fn set_hold(&mut self, hold: Option<Hold>) {
        if let Self::Taken(run) = self {
            run.hold = hold;
        }
    }

    /// Whether its result is known.
    pub(super) fn has_ended(&self) -> bool {
        let ended =
            |run: &Taken| matches!(run.state, State::Ended { .. } | State::Removing { .. } | State::Finished { .. });
        self.taken().is_some_and(ended)
    }

    /// It gives way to a stop: unless its result is known already, another agent will run the task.
    pub(super) fn give_way(&mut self) {
        if !self.has_ended() {
            self.unwanted();
        }
    }

    /// How it stands, if anybody wants to know.
    pub(super) fn report(&self, now: Now) -> Option<Report> {
        let run = self.taken()?;
        let (phase, result) = match &run.state {
            _ if run.fate == Fate::Dropped => return None,
            State::Finished { .. } if run.fate == Fate::GivenUp => (Phase::Finished, Some(lease_over())),
            _ if run.fate == Fate::GivenUp => return None,
            State::Preparing | State::Starting { .. } => (Phase::Preparing, None),
            State::Running => (Phase::Running, None),
            State::Ended { result, .. } | State::Removing { result } => (Phase::Ended, Some(result.clone())),
            State::Finished { result } => (Phase::Finished, Some(result.clone())),
        };
        let (task, round) = (run.job.task, Some(run.job.round));
        // Of a run that has ended, nobody has to end it in time.
        let ran = run.since.filter(|_| phase == Phase::Running).map(|since| now.mono.since(since));
        Some(Report { task, round, phase, times: run.times, ran, result, wait: None })
    }
}

impl Slot {
    /// The work folder is ready, or will never be.
    pub fn handle_prepared(&mut self, now: Now, outcome: Result<(), Failure>) {
        let Run::Taken(run) = &mut self.run else { return };
        if run.state != State::Preparing {
            return;
        }
        match outcome {
            Err(failure) => self.end_without_run(now, failure),
            Ok(()) if run.ladder.is_some() => self.end_without_run(now, killed_preparing()),
            Ok(()) => {
                run.state = State::Starting { tries: 0 };
                self.effects.push_back(Effect::Spawn);
            }
        }
    }

    /// run.sh runs, or does not.
    pub fn handle_spawned(&mut self, now: Now, outcome: Result<(), SpawnFailure>) {
        let Run::Taken(run) = &mut self.run else { return };
        let State::Starting { tries } = &mut run.state else { return };
        match outcome {
            Ok(()) => {
                run.state = State::Running;
                run.times.run = Some(now.wall);
                run.since = Some(now.mono);
                let is_to_end = run.ladder.is_some();
                self.report_soon(now);
                if is_to_end {
                    self.next_rung(now);
                }
            }
            Err(SpawnFailure::Busy) if *tries < RESPAWNS_MAX => {
                *tries += 1;
                self.timers.set(Timer::Respawn, now.mono + RESPAWN_DELAY);
            }
            Err(SpawnFailure::Busy) => {
                let error = "run.sh stays open for writing by another process".to_owned();
                self.end_without_run(now, Failure { exit_code: ExitCode::PREPARE_FAILED, error });
            }
            Err(SpawnFailure::Failed(failure)) => self.end_without_run(now, failure),
        }
    }

    /// run.sh has ended; what it started may still be there.
    pub fn handle_exited(&mut self, now: Now, exited: Exited) {
        let Run::Taken(run) = &mut self.run else { return };
        if run.state == State::Running || std::mem::take(&mut run.unended) {
            self.handle_known(now, exited);
        }
    }

    /// The run is over, and this is what is known of run.sh.
    pub(super) fn handle_known(&mut self, now: Now, exited: Exited) {
        let Run::Taken(run) = &mut self.run else { return };
        let result = exited.into_result(run.ladder.is_none());
        self.end(now, result);
    }

    pub(super) fn end_without_run(&mut self, now: Now, failure: Failure) {
        if failure.exit_code == ExitCode::TOOL_MISSING {
            self.tools.doubt();
        }
        self.end(now, RunResult::of(failure.exit_code, failure.error));
    }

    fn end(&mut self, now: Now, result: RunResult) {
        let Run::Taken(run) = &mut self.run else { return };
        run.times.end = Some(now.wall);
        if run.hold.is_some_and(|hold| hold.until <= now.mono) && result.exit_code.0 < 0 && run.fate == Fate::Reported {
            // The guard has ended it, or it was not started any more: that is no failure of the tool.
            run.fate = Fate::GivenUp;
        }
        run.state = State::Ended { result, sweep: None };
        for timer in [Timer::Ladder, Timer::Respawn, Timer::Hold, Timer::Sweep] {
            self.timers.clear(&timer);
        }
        self.report_soon(now);
        self.effects.push_back(Effect::CheckTree);
    }

    /// Whether anything of the tree is left, and how many processes of it have ended since the last look. Those that have ended
    /// before any signal was sent were not left behind.
    pub fn handle_tree(&mut self, now: Now, left: bool, reaped: u32) {
        if !left {
            self.let_go(now);
        }
        let is_late = self.is_late(now);
        let Run::Taken(run) = &mut self.run else { return };
        let killed = run.ladder.is_some();
        let State::Ended { result, sweep } = &mut run.state else { return };
        if killed || sweep.is_some() {
            result.reaped = result.reaped.saturating_add(reaped);
        }
        if !left {
            let result = result.clone();
            run.state = State::Removing { result };
            self.timers.clear(&Timer::Sweep);
            self.release_lease();
            self.effects.push_back(Effect::Remove);
        } else if sweep.is_none() {
            let (signal, pause) = match is_late {
                true => (Signal::Kill, SWEEP_INTERVAL),
                false => (Signal::Terminate, self.settings.straggler_grace),
            };
            *sweep = Some(signal);
            // A killed run has had its SIGTERM, but a process that was born since has not.
            log::debug!("the run has left processes behind (killed: {killed})");
            self.effects.push_back(Effect::Signal(signal));
            self.timers.set(Timer::Sweep, now.mono + pause);
        }
    }

    /// The work folder is gone.
    pub fn handle_removed(&mut self, now: Now) {
        let Run::Taken(run) = &mut self.run else { return };
        let State::Removing { result } = &run.state else { return };
        run.times.finish = Some(now.wall);
        run.state = State::Finished { result: result.clone() };
        if run.fate != Fate::Dropped {
            self.report_soon(now);
            self.leave_if_done(now);
        } else {
            self.release(now);
        }
    }

    /// The slot is free again without a report.
    pub(super) fn release(&mut self, now: Now) {
        self.run.clear();
        self.report_by = None;
        self.timers.clear(&Timer::Slack);
        self.apply(now);
        self.leave_if_done(now);
    }

    /// Nobody wants the result of this run any more.
    pub(super) fn drop_run(&mut self, now: Now, task: TaskId, round: Round) {
        if self.run.id() == Some((task, round)) {
            log::warn!("round {round} of task {task} is not wanted any more; ending it");
            if self.run.is_leased() {
                return self.give_up(now);
            }
            self.run.unwanted();
            self.kill(now);
            if self.run.is_finished() {
                // Its report has waited for the controller; no other event will come.
                self.release(now);
            }
        }
    }

    /// Begins to end the run; once begun, it goes on by itself.
    pub(super) fn kill(&mut self, now: Now) {
        let Run::Taken(run) = &mut self.run else { return };
        if run.ladder.is_some() {
            return;
        }
        match run.state {
            State::Preparing => {
                run.ladder = Some(0);
                self.effects.push_back(Effect::AbortPrepare);
            }
            State::Starting { .. } => {
                run.ladder = Some(0);
                if self.timers.is_set(&Timer::Respawn) {
                    self.end_without_run(now, killed_preparing());
                }
            }
            State::Running => {
                run.ladder = Some(0);
                self.next_rung(now);
            }
            State::Ended { .. } | State::Removing { .. } | State::Finished { .. } => {}
        }
    }

    /// SIGTERM first, SIGKILL from then on, at most `AGENT_KILL_COUNT` signals (document, section 4.3). The last one is SIGKILL,
    /// also when it is the only one: nothing may outlive the ladder.
    fn next_rung(&mut self, now: Now) {
        let is_late = self.is_late(now);
        let Run::Taken(run) = &mut self.run else { return };
        let Some(sent) = &mut run.ladder else { return };
        *sent += 1;
        let is_polite = *sent == 1 && *sent < self.settings.kill_count && !is_late;
        let signal = if is_polite { Signal::Terminate } else { Signal::Kill };
        self.effects.push_back(Effect::Signal(signal));
        if *sent < self.settings.kill_count {
            self.timers.set(Timer::Ladder, now.mono + self.settings.kill_interval);
        }
    }

    pub(super) fn run_timer(&mut self, now: Now, timer: Timer) {
        let Run::Taken(run) = &mut self.run else { return };
        match (timer, &mut run.state) {
            (Timer::Ladder, State::Running) => self.next_rung(now),
            (Timer::Respawn, State::Starting { .. }) => self.effects.push_back(Effect::Spawn),
            (Timer::Sweep, State::Ended { sweep, .. }) => {
                *sweep = Some(Signal::Kill);
                self.effects.push_back(Effect::Signal(Signal::Kill));
                self.effects.push_back(Effect::CheckTree);
                let interval = if run.refused { REFUSED_INTERVAL } else { SWEEP_INTERVAL };
                self.timers.set(Timer::Sweep, now.mono + interval);
            }
            (Timer::Hold, State::Ended { .. }) => self.give_up_waiting(),
            (Timer::Hold, State::Running) => self.effects.push_back(Effect::Unended),
            _ => {}
        }
    }
}
