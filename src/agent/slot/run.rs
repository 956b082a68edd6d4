//! The phases of one run, from its dispatch to the clean slot.
//!
//! | state | event | next state |
//! |---|---|---|
//! | Free | a dispatch | Preparing |
//! | Preparing | prepared | Starting, or Ended if it failed or is to be killed |
//! | Starting | started, or handed to a tool that stays; did not start | Running; Ended: both are [`State::Run`] |
//! | Running | run.sh has ended, a tool that stays has answered, or run.sh cannot be ended ([`super::foreign`]) | Ended |
//! | Ended | no process of the tree is left | Keeping if its task names outputs, otherwise Removing |
//! | Keeping | its files are kept | Removing |
//! | Removing | the folder is gone | Finished |
//! | Finished | reported, or no report is wanted | Free, or Held |
//! | Held | no process of the tree is left | Free |

use std::time::Duration;

use super::foreign::Foreign;
use super::orders::Order;
use super::outcome::{lease_over, not_started};
use super::progress::FIRST_LOOK;
use super::run_order::RunOrder;
use super::{Effect, Exited, Failure, Hold, Slot, SpawnFailure, Timer};
use api::wire::requests::apply::Dispatch;
use api::wire::requests::report::Report;
use base::{ExitCode, Mono, Now, Phase, PhaseTimes, Progress, Provided, Round, RunResult, TaskId};
use proc::ladder::{RunMachine, SWEEP_INTERVAL, Step, Terms};

/// ETXTBSY lasts as long as another process is between its fork and its exec, some microseconds. Five tries at intervals of
/// two milliseconds outlast it (docs/design/hazards.md, P5).
const RESPAWN_DELAY: Duration = Duration::from_millis(2);
const RESPAWNS_MAX: u32 = 5;

/// Time between two checks of the remains of a run that has a process which may not be signalled. SIGCHLD reports its end, and
/// each check is a scan of `/proc`.
const REFUSED_INTERVAL: Duration = Duration::from_secs(1);

/// How long the report that a tool that stays has the task waits for its answer. Most answers are faster, and then one report is enough.
const ANSWER_DELAY: Duration = Duration::from_millis(2);

#[derive(Debug, Default)]
pub(super) enum Run {
    #[default]
    Free,
    Active(Box<ActiveRun>),
    /// The run has ended, but a process of it has not: see [`super::foreign`].
    Held,
}

#[derive(Debug)]
pub(super) struct ActiveRun {
    pub(super) dispatch: RunOrder,
    pub(super) state: State,
    pub(super) times: PhaseTimes,
    /// Whether a tool that stays has the task. Its root lives on.
    pub(super) stays: bool,
    /// Start of run.sh, or moment of the hand-over.
    since: Option<Mono>,
    /// The strongest order before the end of run.sh.
    pub(super) order: Option<Order>,
    progress: Option<Box<Progress>>,
    /// The locations that an ended run of a step provides.
    provided: Option<Box<Provided>>,
    pub(super) fate: Fate,
    /// How long an exclusive run may continue; `None` for other runs, and when no process is left.
    hold: Option<Hold>,
    pub(super) foreign: Foreign,
}

/// The fate of a finished run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The result is reported.
    Reported,
    /// The lease has ended the run. The controller waits for that report before another round.
    GivenUp,
    /// The controller does not want a report.
    Dropped,
}

#[derive(Debug, PartialEq)]
pub(super) enum State {
    Preparing,
    Starting {
        tries: u32,
    },
    /// run.sh is running, or has ended and may have left processes behind.
    Run(RunMachine<RunResult>),
    /// Files of the run are kept with its task.
    Keeping {
        result: RunResult,
    },
    Removing {
        result: RunResult,
    },
    Finished {
        result: RunResult,
    },
}

impl Run {
    pub(super) fn start(&mut self, now: Now, dispatch: &Dispatch) {
        let dispatch = RunOrder::from(dispatch);
        let times = PhaseTimes { prepare: Some(now.wall), ..PhaseTimes::default() };
        let (state, fate) = (State::Preparing, Fate::Reported);
        let (since, order, hold, provided, progress) = (None, None, None, None, None);
        let run = ActiveRun {
            dispatch,
            state,
            times,
            stays: false,
            since,
            order,
            progress,
            provided,
            fate,
            hold,
            foreign: Foreign::default(),
        };
        *self = Self::Active(Box::new(run));
    }

    /// The run has ended.
    pub(super) fn clear(&mut self) {
        *self = if self.active().is_some_and(|run| run.foreign.keeps_slot()) { Self::Held } else { Self::Free };
    }

    pub(super) const fn is_free(&self) -> bool {
        matches!(self, Self::Free)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.active().is_some_and(|run| matches!(run.state, State::Finished { .. }))
    }

    pub(super) fn active(&self) -> Option<&ActiveRun> {
        match self {
            Self::Free | Self::Held => None,
            Self::Active(run) => Some(run),
        }
    }

    pub(super) fn id(&self) -> Option<(TaskId, Round)> {
        self.active().map(|run| (run.dispatch.task, run.dispatch.round))
    }

    /// Sets the progress of a running run; true if it has changed.
    pub(super) fn set_progress(&mut self, progress: Progress) -> bool {
        let Self::Active(run) = self else { return false };
        let has_changed = run.is_running() && run.progress.as_deref() != Some(&progress);
        if has_changed {
            run.progress = Some(Box::new(progress));
        }
        has_changed
    }

    /// Whether run.sh has been started and has not ended.
    pub(super) fn writes(&self) -> bool {
        self.active().is_some_and(ActiveRun::is_running)
    }

    pub(super) fn batch_delay(&self) -> Option<Duration> {
        self.active().map(|run| run.dispatch.batch_delay)
    }

    /// No result will be reported.
    pub(super) fn drop_result(&mut self) {
        self.set_fate(Fate::Dropped);
    }

    pub(super) fn set_fate(&mut self, fate: Fate) {
        if let Self::Active(run) = self
            && run.fate != Fate::Dropped
        {
            run.fate = fate;
        }
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.active().is_some_and(|run| run.fate == Fate::GivenUp)
    }

    pub(super) fn is_leased(&self) -> bool {
        self.active().is_some_and(|run| run.dispatch.lease.is_some())
    }

    /// The term of its lease.
    pub(super) fn term(&self) -> Duration {
        self.active().and_then(|run| run.dispatch.lease).unwrap_or_default()
    }

    pub(super) fn hold(&self) -> Option<Hold> {
        self.active().and_then(|run| run.hold)
    }

    pub(super) fn set_hold(&mut self, hold: Option<Hold>) {
        if let Self::Active(run) = self {
            run.hold = hold;
        }
    }

    /// Whether the result is known.
    pub(super) fn has_ended(&self) -> bool {
        let is_before = |run: &ActiveRun| matches!(run.state, State::Preparing | State::Starting { .. });
        self.active().is_some_and(|run| !is_before(run) && !run.is_running())
    }

    /// The agent stops. Without a known result, the task runs again on another agent.
    pub(super) fn give_way(&mut self) {
        // A result without the kept files is not complete.
        if !self.has_ended() || self.is_keeping() {
            self.drop_result();
        }
    }

    /// The report of the run, if the controller wants one.
    pub(super) fn report(&self, now: Now) -> Option<Report> {
        let run = self.active()?;
        let (phase, result) = match &run.state {
            _ if run.fate == Fate::Dropped => return None,
            State::Finished { .. } if run.fate == Fate::GivenUp => (Phase::Finished, Some(lease_over())),
            _ if run.fate == Fate::GivenUp => return None,
            State::Preparing | State::Starting { .. } => (Phase::Preparing, None),
            State::Run(RunMachine { end: None, .. }) => (Phase::Running, None),
            // If the agent died before the files are kept, a result without them would count.
            State::Run(_) | State::Keeping { .. } if run.dispatch.has_outputs => (Phase::Ended, None),
            State::Run(machine) if run.writes_on(machine) => (Phase::Ended, None),
            State::Run(RunMachine { end: Some(result), .. })
            | State::Keeping { result }
            | State::Removing { result } => (Phase::Ended, Some(result.clone())),
            State::Finished { result } => (Phase::Finished, Some(result.clone())),
        };
        let (task, round) = (run.dispatch.task, Some(run.dispatch.round));
        let provided = if phase == Phase::Finished { run.provided.clone() } else { None };
        let ran = run.since.filter(|_| phase == Phase::Running).map(|since| now.mono.since(since));
        let progress = run.progress.clone().filter(|_| phase == Phase::Running);
        let (times, let_go, wait) = (run.times, None, None);
        Some(Report { task, round, phase, times, ran, result, provided, progress, let_go, wait })
    }
}

impl ActiveRun {
    /// Whether run.sh is running.
    pub(super) const fn is_running(&self) -> bool {
        matches!(self.state, State::Run(RunMachine { end: None, .. }))
    }

    /// Whether the run was ordered to end before run.sh did.
    pub(super) fn is_killed(&self) -> bool {
        self.order == Some(Order::Kill)
    }
}

impl Slot {
    /// The work folder is ready, or cannot be made.
    pub fn handle_prepared(&mut self, now: Now, outcome: Result<(), Failure>) {
        let Run::Active(run) = &mut self.run else { return };
        if run.state != State::Preparing {
            return;
        }
        match (outcome, run.order) {
            (Err(failure), _) => self.end_without_run(now, failure),
            (Ok(()), Some(order)) => self.end_without_run(now, not_started(order)),
            (Ok(()), None) => {
                run.state = State::Starting { tries: 0 };
                self.effects.push_back(Effect::Spawn);
            }
        }
    }

    /// run.sh has been started, or could not be.
    pub fn handle_spawned(&mut self, now: Now, outcome: Result<(), SpawnFailure>) {
        let Run::Active(run) = &mut self.run else { return };
        let State::Starting { tries } = &mut run.state else { return };
        match outcome {
            Ok(()) => {
                run.state = State::Run(RunMachine::started());
                run.times.run = Some(now.wall);
                run.since = Some(now.mono);
                let order = run.order;
                self.report_soon(now);
                self.timers.set(Timer::Progress, now.mono + FIRST_LOOK);
                match order {
                    Some(Order::Kill) => self.end_by(now, Order::Kill),
                    Some(Order::Finish) => self.order_to_finish(now),
                    None => {}
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
            Err(SpawnFailure::Failed(failure)) => {
                let failure = run.order.map_or(failure, not_started);
                self.end_without_run(now, failure);
            }
            Err(SpawnFailure::Exited(exited)) => {
                run.times.run = Some(now.wall);
                self.handle_known(now, *exited);
            }
        }
    }

    /// A tool that stays has the task.
    pub fn handle_handed(&mut self, now: Now) {
        if let Run::Active(run) = &mut self.run {
            run.stays = true;
        }
        self.handle_spawned(now, Ok(()));
        self.report_by = self.report_by.map(|by| by.max(now.mono + ANSWER_DELAY));
    }

    /// run.sh has ended, or has answered if it stays; processes that it started may be left.
    pub fn handle_exited(&mut self, now: Now, exited: Exited) {
        let Run::Active(run) = &mut self.run else { return };
        if run.is_running() || run.foreign.end_root() {
            self.handle_known(now, exited);
        }
    }

    /// The run has ended, with these facts about run.sh.
    pub(super) fn handle_known(&mut self, now: Now, exited: Exited) {
        let Run::Active(run) = &mut self.run else { return };
        let Exited { mut result, provided } = exited;
        result.by_itself = run.order.is_none();
        let provided = provided.filter(|_| !run.is_killed());
        run.provided = provided.and_then(|provided| provided.count(&mut result, run.order == Some(Order::Finish)));
        self.end(now, result);
    }

    pub(super) fn end_without_run(&mut self, now: Now, failure: Failure) {
        if failure.exit_code == ExitCode::TOOL_MISSING {
            self.tools.doubt();
        }
        self.end(now, RunResult::of(failure.exit_code, failure.error));
    }

    fn end(&mut self, now: Now, mut result: RunResult) {
        let Run::Active(run) = &mut self.run else { return };
        result.told_to_finish = run.order == Some(Order::Finish);
        run.times.end = Some(now.wall);
        if run.hold.is_some_and(|hold| hold.until <= now.mono) && result.exit_code.0 < 0 && run.fate == Fate::Reported {
            // The guard has ended the run, or nothing was started: that is no failure of the tool.
            run.fate = Fate::GivenUp;
        }
        match &mut run.state {
            State::Run(machine) => machine.handle_end(result),
            state => *state = State::Run(RunMachine::ended(result)),
        }
        for timer in [Timer::Signal, Timer::Respawn, Timer::Hold, Timer::Grace, Timer::Progress] {
            self.timers.clear(&timer);
        }
        self.report_soon(now);
        self.effects.push_back(Effect::CheckTree);
    }

    /// The result of a check: whether any process of the tree is left, and how many have ended since the last check. A process
    /// that ended before the first signal was not left behind.
    pub fn handle_tree(&mut self, now: Now, left: bool, reaped: u32) {
        if !left {
            self.let_go(now);
        }
        let Run::Active(run) = &mut self.run else { return };
        let is_killed = run.is_killed();
        if let State::Run(machine) = &mut run.state
            && (is_killed || machine.is_signalled())
            && let Some(result) = &mut machine.end
        {
            result.reaped = result.reaped.saturating_add(reaped);
        }
        self.step(now, |machine, terms| machine.handle_tree(now, left, terms));
    }

    /// Carries out the next step for the processes of the run after an event.
    pub(super) fn step(&mut self, now: Now, event: impl FnOnce(&mut RunMachine<RunResult>, &Terms) -> Step) {
        let is_late = self.is_late(now);
        let Run::Active(run) = &mut self.run else { return };
        let State::Run(machine) = &mut run.state else { return };
        let terms = Terms {
            is_polite: !is_late,
            kill_interval: self.settings.kill_interval,
            kills_max: Some(self.settings.kill_count),
            grace: self.settings.straggler_grace,
            sweep_interval: if run.foreign == Foreign::None { SWEEP_INTERVAL } else { REFUSED_INTERVAL },
            sweeps_max: None,
        };
        let step = event(machine, &terms);
        self.timers.put(Timer::Signal, machine.due());
        match step {
            Step::Wait => {}
            Step::Signal(signal) => self.effects.push_back(Effect::Signal(signal)),
            Step::Sweep(signal) => self.effects.extend([Effect::Signal(signal), Effect::CheckTree]),
            Step::Over | Step::Withstood => self.close(),
        }
    }

    /// The work folder has been removed.
    pub fn handle_removed(&mut self, now: Now) {
        let Run::Active(run) = &mut self.run else { return };
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

    /// The slot becomes free without a report.
    pub(super) fn release(&mut self, now: Now) {
        self.run.clear();
        self.report_by = None;
        self.timers.clear(&Timer::BatchDelay);
        self.apply(now);
        self.leave_if_done(now);
    }

    pub(super) fn run_timer(&mut self, now: Now, timer: Timer) {
        let Run::Active(run) = &mut self.run else { return };
        match (timer, &mut run.state) {
            (Timer::Signal, State::Run(_)) => self.step(now, |machine, terms| machine.handle_timeout(now, terms)),
            (Timer::Respawn, State::Starting { .. }) => self.effects.push_back(Effect::Spawn),
            (Timer::Hold, State::Run(RunMachine { end: None, .. })) => self.effects.push_back(Effect::Unended),
            (Timer::Hold, State::Run(_)) => self.give_up_waiting(),
            _ => {}
        }
    }
}
