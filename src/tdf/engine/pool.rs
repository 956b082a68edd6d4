//! The agents of a controller as a worker of a namespace: many tasks at once, each a task of the controller.
//!
//! | a run is | event | next |
//! |---|---|---|
//! | at the controller ([`Life`]) | it has ended, or was refused for good | Reporting |
//! | | no agent has taken it for [`PULL_AFTER`], so that it was pulled back; its agents were lost | Returning |
//! | Reporting, Returning | Redis has it, or has no use for it | gone |
//!
//! Tasks are claimed in batches: as many as agents are free, and as will be within milliseconds ([`ahead`]), less those that have no
//! agent yet. While Redis is away, nothing is
//! claimed, tasks go on, results are kept on the disk, and every call is made again until it is answered; each may be made twice.
//!
//! A controller that was killed gets its runs from Redis ([`Pool::handle_joined`]) and submits their tasks with the same keys, so that
//! it finds those that it has. One that seems to wait may have been handed out ([`Life::Doubtful`]): until the agents have had the
//! time to say so, it is not pulled back, and agents are not kept free for it.
//! A task of the controller whose run is not ours any more is killed.

mod ahead;
mod calls;
mod claims;
mod tasks;

#[cfg(test)]
mod scenarios;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use crate::engine::lease::RENEWAL_INTERVAL;
use crate::engine::outage::{Outage, RETRY_MAX};
use crate::engine::worker::{Assignment, KEEP_AFTER, POLL_INTERVAL_MAX};
use crate::wire::Budget;
use base::journal::{Journal, LogLine};
use base::tdf::Fence;
use base::timers::Timers;
use base::{Mono, Now, TaskId};
use controller::hosted::rules;
use controller::hosted::rules::Answer;
use controller::hosted::rules::life::{Life, Next};
use controller::hosted::rules::reading::Reading;

pub use calls::Unanswered;
use claims::Claims;

/// Time that a run waits for an agent before its task is opened again for others. An agent that was free when it was claimed takes it
/// within milliseconds.
const PULL_AFTER: Duration = Duration::from_secs(1);

/// Pause before the number of free agents is asked for again, if neither the end of a task nor the heartbeat of an agent has shown
/// one. Heartbeats come every few seconds.
const FREE_PAUSE: Duration = Duration::from_secs(300);

/// Pause of the claims after a run was given back, so that it has a chance elsewhere.
const RETURN_PAUSE: Duration = Duration::from_secs(1);

/// Pause before a refused submit is repeated.
const SUBMIT_PAUSE: Duration = Duration::from_secs(1);

/// How long a result of a short program waits for others. A claim takes it along before that.
const REPORT_DELAY_MAX: Duration = Duration::from_millis(10);

/// Tasks of one claim, at most: the script keeps Redis from others.
const CLAIM_MAX: usize = 64;

/// The reason of a kill of a task whose run waits for other workers again.
const TAKEN_BACK: &str = "its TDF task is open again for other workers";

/// The number of a run in this process.
pub type RunNumber = u64;

/// The submit of a run, with the time that it has left, if it has a limit.
type Work = (Box<Assignment>, Option<Duration>);

/// A question to the controller.
pub type Question = rules::Question<Work, Infallible>;

/// An instruction to the shell.
#[must_use]
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Register as a worker and ask for the runs that its name has; then [`Pool::handle_joined`].
    Join,
    /// Claim so many tasks with the token of this number; then [`Pool::handle_claimed`].
    Claim(u64, usize),
    /// Ask the controller; then [`Pool::handle_answer`] with this number.
    Ask(u64, Question),
    /// The result of a run, which stays with the shell until it is forgotten.
    Collect(RunNumber, Box<Ended>),
    /// Report the result of a run; then [`Pool::handle_reported`].
    Report(RunNumber),
    /// Write the result to the disk.
    Keep(RunNumber),
    /// The result has been reported, or has no use.
    Forget(RunNumber),
    /// Let the round wait again; with true its worker is lost. Then [`Pool::handle_returned`].
    Return(RunNumber, Fence, bool),
    /// Show that this worker lives, and renew the leases of its runs; then [`Pool::handle_renewed`].
    Renew(Vec<Fence>),
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The claim of the run.
    pub fence: Fence,
    /// The budget of a run that took too long.
    pub timed_out: Option<Budget>,
    /// Its stdout.
    pub output: Vec<u8>,
    /// Its stderr.
    pub error: Vec<u8>,
    /// Lines for the log of the task, each with the time since the claim.
    pub log: Vec<(Duration, String)>,
}

/// The reason for a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// An idle pool looks for tasks of foreign openers.
    Poll,
    /// The number of free agents is asked for again.
    Free,
    /// Leases are renewed.
    Renew,
    /// Calls that were not answered are due again.
    Retry,
    /// Results have waited for others.
    Report,
    /// A refused submit is repeated.
    Submit(RunNumber),
    /// No agent has taken it.
    Pull(RunNumber),
    /// An absent agent is asked for an output again.
    Output(RunNumber),
    /// A result is not confirmed.
    Keep(RunNumber),
}

/// The subject of a question without an answer.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Free,
    /// An order whose answer changes nothing.
    Order,
    Run(RunNumber),
}

#[derive(Debug)]
struct Run {
    task: Assignment,
    claimed: Mono,
    log: Vec<(Duration, String)>,
    state: State,
}

#[derive(Debug)]
enum State {
    AtController(Life),
    Reporting { is_calling: bool },
    Returning { is_loss: bool, is_calling: bool },
}

/// The runs of one controller.
#[derive(Debug)]
pub struct Pool {
    /// Bytes of one output.
    output_bytes_max: u64,
    /// How long an agent may be silent: within it, the agents of an earlier controller name their runs.
    silence_max: Duration,
    runs: BTreeMap<RunNumber, Run>,
    /// The tasks at the controller, and their runs.
    tasks: BTreeMap<TaskId, RunNumber>,
    /// Tasks of other times that were told to end.
    killed: BTreeSet<TaskId>,
    asked: BTreeMap<u64, Asked>,
    /// The last number of a question or of a run.
    numbers: u64,
    claims: Claims,
    /// The pause after the next call that is not answered; `None` while Redis answers.
    away: Outage,
    /// Whether another process has the name, and this was said.
    is_displaced: bool,
    /// Whether refused submits have been logged since the last one that was accepted.
    is_refused: bool,
    timers: Timers<Timer>,
    effects: VecDeque<Effect>,
    journal: Journal,
}

impl Pool {
    /// A pool that begins with the results that an earlier process has left on the disk, each under the number of its place.
    #[must_use]
    pub fn new(now: Now, output_bytes_max: u64, silence_max: Duration, left: Vec<Fence>) -> Self {
        let mut pool = Self {
            output_bytes_max,
            silence_max,
            runs: BTreeMap::new(),
            tasks: BTreeMap::new(),
            killed: BTreeSet::new(),
            asked: BTreeMap::new(),
            numbers: 0,
            claims: Claims::new(),
            away: Outage::default(),
            is_displaced: false,
            is_refused: false,
            timers: Timers::default(),
            effects: VecDeque::new(),
            journal: Journal::default(),
        };
        for fence in left {
            let state = State::Reporting { is_calling: false };
            pool.runs
                .insert(pool.numbers, Run { task: Assignment::of(fence), claimed: now.mono, log: Vec::new(), state });
            pool.numbers += 1;
        }
        pool.call();
        pool
    }

    /// The log lines since the last call; see [`base::journal`].
    pub fn take_log(&mut self) -> VecDeque<LogLine> {
        self.journal.take()
    }

    /// The next effect.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The nearest deadline.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Mono> {
        self.timers.next().map(|(at, _)| at)
    }

    /// Whether it wants to hear of a free agent: then [`Self::handle_freed`] says that there may be one.
    #[must_use]
    pub fn wants_agents(&self) -> bool {
        // One that becomes free behind the answer is not in it.
        self.lacks_agents() || self.claims.is_counting()
    }

    /// Whether it waits for a free agent.
    fn lacks_agents(&self) -> bool {
        self.timers.is_set(&Timer::Free)
    }

    /// A deadline has passed.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some(timer) = self.timers.pop_due(now.mono) {
            match timer {
                Timer::Poll | Timer::Free => self.consider_claim(),
                Timer::Renew => self.renew(),
                // Otherwise its retry reports.
                Timer::Report if self.claims.has_joined() && !self.away.is_on() => self.call(),
                Timer::Report => {}
                Timer::Retry => self.call(),
                Timer::Submit(run) => self.submit(now, run),
                Timer::Pull(run) => self.pull(now, run),
                Timer::Output(run) => self.read_on(now, run),
                Timer::Keep(run) => self.effects.push_back(Effect::Keep(run)),
            }
        }
    }

    /// A task may be open.
    pub fn handle_woken(&mut self) {
        self.claims.wake();
        // Without a free agent nothing is claimed.
        if !self.lacks_agents() {
            self.consider_claim();
        }
    }

    /// An agent may have become free.
    pub fn handle_freed(&mut self) {
        if !self.claims.outdate_count() && self.lacks_agents() {
            self.consider_claim();
        }
    }

    /// The answer to a question.
    pub fn handle_answer(&mut self, now: Now, number: u64, answer: Answer) {
        match self.asked.remove(&number) {
            Some(Asked::Free) => match answer {
                Answer::Agents { free, busy } => self.free(now, free, busy),
                _ => self.free(now, 0, 0),
            },
            Some(Asked::Run(run)) => self.take_answer(now, run, answer),
            Some(Asked::Order) | None => {}
        }
    }

    /// The process ends. Runs that the controller has not heard of wait again, and results are written to the disk; the others are
    /// taken up by the next process, or end with their leases.
    pub fn handle_stop(&mut self) {
        for (number, run) in &mut self.runs {
            match run.state {
                State::AtController(Life::Refused) => {
                    run.state = State::Returning { is_loss: false, is_calling: false };
                }
                State::Reporting { .. } => self.effects.push_back(Effect::Keep(*number)),
                _ => {}
            }
        }
        self.call();
    }

    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn ask(&mut self, asked: Asked, question: Question) {
        let number = self.next_number();
        self.asked.insert(number, asked);
        self.effects.push_back(Effect::Ask(number, question));
    }

    fn state(&mut self, run: RunNumber) -> Option<&mut State> {
        self.runs.get_mut(&run).map(|run| &mut run.state)
    }

    /// The life of a run that is at the controller.
    fn life(&mut self, run: RunNumber) -> Option<&mut Life> {
        match self.state(run)? {
            State::AtController(life) => Some(life),
            State::Reporting { .. } | State::Returning { .. } => None,
        }
    }
}
