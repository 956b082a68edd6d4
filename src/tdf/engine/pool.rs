//! The agents of a controller as a worker of a namespace: many tasks at once, each a task of the controller.
//!
//! | a run is | event | next |
//! |---|---|---|
//! | at the controller ([`Life`]) | it has ended, or was refused for good | Reporting |
//! | | no agent has taken it for [`PULL_AFTER`], so that it was pulled back; its agents were lost | Returning |
//! | Reporting, Returning | Redis has the result or the task, or drops it | gone |
//!
//! A claim gets as many tasks as agents are free, and as will be free within milliseconds ([`ahead`]), less the runs without an
//! agent. During an outage of Redis nothing is claimed, tasks continue, results are kept on the disk, and every call is repeated
//! until it is answered, so that each may arrive twice.
//!
//! A controller that was killed gets its runs from Redis ([`Pool::handle_joined`]) and submits their tasks with the same keys, so that
//! it finds the tasks that it has. A task that looks queued may already be running ([`Life::Doubtful`]): it is not pulled back, and no
//! agent is kept free for it, until its agent has had the time to report. The task of a run that the pool has lost is killed.

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
use crate::engine::worker::{Assignment, KEEP_AFTER, POLL_INTERVAL_MAX, READ_PAUSE, READS_MAX};
use crate::wire::Budget;
use api::guest;
use api::guest::Answer;
use api::guest::life::{Life, Next};
use api::guest::reading::Reading;
use base::journal::{Journal, LogLine};
use base::tdf::Fence;
use base::timers::Timers;
use base::{Mono, Now, TaskId};

pub use calls::Unanswered;
use claims::Claims;

/// Time that a run waits for an agent before its task is opened again for other workers. An agent that was free at the claim takes
/// the task within milliseconds.
const PULL_AFTER: Duration = Duration::from_secs(1);

/// Pause before the free agents are counted again, if neither the end of a task nor the heartbeat of an agent has shown one.
/// Heartbeats come every few seconds.
const FREE_PAUSE: Duration = Duration::from_secs(300);

/// Pause of the claims after a run was given back, so that another worker can take the task.
const RETURN_PAUSE: Duration = Duration::from_secs(1);

/// Pause before a refused submit is repeated.
const SUBMIT_PAUSE: Duration = Duration::from_secs(1);

/// Longest time that the result of a short program waits for other results. The next claim takes it along earlier.
const REPORT_DELAY_MAX: Duration = Duration::from_millis(10);

/// Tasks of one claim, at most: Redis serves no other client during the script.
const CLAIM_MAX: usize = 64;

/// The reason for the kill of a task that waits for other workers again.
const TAKEN_BACK: &str = "its TDF task is open again for other workers";

/// The number of a run in this process.
pub type RunNumber = u64;

/// The submit of a run, with the time that it has left, if it has a limit.
type Work = (Box<Assignment>, Option<Duration>);

/// A question to the controller.
pub type Question = guest::Question<Work, Infallible>;

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
    Collect(RunNumber, Box<Finished>),
    /// Report the result of a run; then [`Pool::handle_reported`] or [`Pool::handle_unreadable`].
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

/// The result of a run, with the whole content of its report.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The claim of the run.
    pub fence: Fence,
    /// The budget of a run that took too long.
    pub timed_out: Option<Budget>,
    /// Its stdout.
    pub output: Vec<u8>,
    /// Its stderr.
    pub error: Vec<u8>,
    /// Lines for the log of the task.
    pub log: Vec<RunLine>,
}

/// A line for the log of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLine {
    /// The time since the claim of the run.
    pub since_start: Duration,
    /// The message, without a time.
    pub text: String,
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
    /// No agent has taken the run.
    Pull(RunNumber),
    /// An absent agent is asked for an output again.
    Output(RunNumber),
    /// A result is not confirmed.
    Keep(RunNumber),
    /// A kept result is read again.
    Read(RunNumber),
}

/// The subject of a question without an answer.
#[derive(Clone, Copy, Debug)]
enum Subject {
    Free,
    /// An order whose answer changes nothing.
    Order,
    Run(RunNumber),
}

#[derive(Debug)]
struct Run {
    task: Assignment,
    claimed: Mono,
    log: Vec<RunLine>,
    state: State,
    /// Vain attempts to read its kept result.
    reads: u32,
}

impl Run {
    const fn new(task: Assignment, claimed: Mono, state: State) -> Self {
        Self { task, claimed, log: Vec::new(), state, reads: 0 }
    }
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
    /// Tasks of lost runs that were killed.
    killed: BTreeSet<TaskId>,
    unanswered: BTreeMap<u64, Subject>,
    /// The last number of a question or of a run.
    numbers: u64,
    claims: Claims,
    outage: Outage,
    /// Whether another process has the name, which was logged.
    is_displaced: bool,
    /// Whether a refused submit has been logged since the last accepted one.
    is_refused: bool,
    timers: Timers<Timer>,
    effects: VecDeque<Effect>,
    journal: Journal,
}

impl Pool {
    /// A pool that begins with the results that an earlier process has left on the disk: the number of a run is the index here.
    #[must_use]
    pub fn new(now: Now, output_bytes_max: u64, silence_max: Duration, left: Vec<Fence>) -> Self {
        let mut pool = Self {
            output_bytes_max,
            silence_max,
            runs: BTreeMap::new(),
            tasks: BTreeMap::new(),
            killed: BTreeSet::new(),
            unanswered: BTreeMap::new(),
            numbers: 0,
            claims: Claims::new(),
            outage: Outage::default(),
            is_displaced: false,
            is_refused: false,
            timers: Timers::default(),
            effects: VecDeque::new(),
            journal: Journal::default(),
        };
        for fence in left {
            let state = State::Reporting { is_calling: false };
            pool.runs.insert(pool.numbers, Run::new(Assignment::of(fence), now.mono, state));
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

    /// Whether a free agent is to be announced by [`Self::handle_freed`].
    #[must_use]
    pub fn wants_agents(&self) -> bool {
        // The count misses an agent that becomes free after it.
        self.lacks_agents() || self.claims.is_counting()
    }

    /// Whether the pool waits for a free agent.
    fn lacks_agents(&self) -> bool {
        self.timers.is_set(&Timer::Free)
    }

    /// A deadline has passed.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some(timer) = self.timers.pop_due(now.mono) {
            match timer {
                Timer::Poll | Timer::Free => self.consider_claim(),
                Timer::Renew => self.renew(),
                // Otherwise the retry reports.
                Timer::Report if self.claims.has_joined() && !self.outage.is_on() => self.call(),
                Timer::Report => {}
                Timer::Retry => self.call(),
                Timer::Submit(run) => self.submit(now, run),
                Timer::Pull(run) => self.pull(now, run),
                Timer::Output(run) => self.read_on(now, run),
                Timer::Keep(run) => self.effects.push_back(Effect::Keep(run)),
                Timer::Read(run) => self.read_again(run),
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
        match self.unanswered.remove(&number) {
            Some(Subject::Free) => match answer {
                Answer::Agents { free, busy } => self.free(now, free, busy),
                _ => self.free(now, 0, 0),
            },
            Some(Subject::Run(run)) => self.take_answer(now, run, answer),
            Some(Subject::Order) | None => {}
        }
    }

    /// The process ends. Runs without a task at the controller wait again, and results are written to the disk; the next process
    /// takes up the other runs, or they end with their leases.
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

    fn ask(&mut self, subject: Subject, question: Question) {
        let number = self.next_number();
        self.unanswered.insert(number, subject);
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
