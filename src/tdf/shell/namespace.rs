//! A namespace and the connection to it: one method for each script that a worker needs, one round trip each.
//!
//! After [`RedisError::Away`] the next call connects again. It may repeat the last one: every script is safe to send twice.
//! [`Namespace::claim`] gets the same tasks for the same token, and [`Namespace::report`] recognises a repetition.

mod claimed;

use std::time::Duration;

use redis::Value;

use super::error::RedisError;
use super::link::{Address, Call, Link};
use super::outage::patiently;
use super::session::{Holder, Session, WorkerKind};
use super::{reply, scripts};
use crate::engine::moves;
use crate::engine::pool::RunLine;
use crate::engine::worker::Assignment;
use crate::wire::{Budget, hop, log, words};
use api::config::RedisSection;
use base::tdf::number::{float, int};
use base::tdf::{Fence, State, TaskId, WorkerId, WorkerName};

pub use crate::engine::lease::{LEASE, RENEWAL_INTERVAL};

/// How long the last claim of a worker is remembered: longer than a worker repeats it.
const TOKEN_LIFETIME: Duration = Duration::from_secs(3600);

/// A claim of tasks.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The name of the worker.
    pub worker: &'a WorkerName,
    /// A text without blanks, unique to this claim and its repetitions. Only the worker's last claim that got a task is remembered.
    pub token: &'a str,
    /// The maximum number of tasks, all of which can be started at once.
    pub count: u32,
}

/// The end of a run.
#[derive(Clone, Copy, Debug)]
pub enum Ending<'a> {
    /// The program has ended; or it could not be fetched or started, with the reason in stderr.
    Executed {
        /// Its stdout, as bytes.
        output: &'a [u8],
        /// Its stderr, as bytes.
        error: &'a [u8],
    },
    /// The run took longer than its `timeout`.
    TimedOut {
        /// Its stdout until then, as bytes.
        output: &'a [u8],
        /// Its stderr until then, as bytes.
        error: &'a [u8],
        /// [`Assignment::timeouts`].
        timeouts: Budget,
    },
}

/// The report of a run. A repetition must have the same output and error.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The run.
    pub fence: &'a Fence,
    /// The end of the run.
    pub ending: Ending<'a>,
    /// Lines for the log of the task.
    pub log: &'a [RunLine],
}

/// The effect of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reported {
    /// The task has moved on.
    Moved,
    /// The report is a repetition.
    Already,
    /// The run has lost the task; the report was dropped.
    Gone {
        /// Its field `state`.
        state: String,
        /// Its field `round`.
        round: String,
    },
}

/// A run that the worker has lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRun {
    /// The task.
    pub task: TaskId,
    /// Its field `state`.
    pub state: String,
    /// Its field `round`.
    pub round: String,
}

/// A connection to the tasks of one namespace.
pub struct Namespace {
    pub(super) link: Link,
    pub(super) name: String,
    /// The identity of this process, for the names of workers and the tokens of claims.
    session: Session,
}

impl Namespace {
    /// Connects. A Redis that cannot be reached ends this attempt within seconds; a connection that breaks is made again.
    ///
    /// # Errors
    /// When Redis is away or refuses us, or a certificate cannot be read.
    pub fn connect(redis: &RedisSection, namespace: &str) -> Result<Self, RedisError> {
        let link = Link::connect(Address::new(redis)?, words::prefix(namespace))?;
        Ok(Self { link, name: namespace.to_owned(), session: Session::fresh() })
    }

    /// A namespace without a connection, which the first call makes.
    ///
    /// # Errors
    /// When a certificate cannot be read.
    pub fn unconnected(redis: &RedisSection, namespace: &str) -> Result<Self, RedisError> {
        let link = Link::new(Address::new(redis)?, words::prefix(namespace));
        Ok(Self { link, name: namespace.to_owned(), session: Session::fresh() })
    }

    /// Another connection of the same process, with its session. The first call makes it.
    pub(super) fn another(&self) -> Self {
        Self { link: self.link.another(), name: self.name.clone(), session: self.session.clone() }
    }

    /// The name of the namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The part of tokens that no other process has.
    #[must_use]
    pub fn session(&self) -> &str {
        self.session.as_str()
    }

    /// Registers a worker as the original does, writes its session, and takes the lease of its name. May be repeated. The name of an
    /// ended process of this machine is free.
    ///
    /// # Errors
    /// When another process has the name, or Redis does not answer as it should.
    pub fn register(&mut self, worker: &WorkerName, kind: WorkerKind) -> Result<WorkerId, RedisError> {
        let about = self.session.about(kind).to_string();
        let mut register = |replaced: &str| {
            let call = Call::new(scripts::REGISTER).arg(worker.as_str()).arg(&about).arg(self.session.as_str());
            let answer =
                self.link.call(call.arg(seconds(LEASE)).arg(replaced)).map_err(|error| taken(error, worker))?;
            reply::parsed(answer).map(WorkerId).ok_or_else(|| self.link.reply(scripts::REGISTER.name))
        };
        match register("") {
            Err(RedisError::NameTaken { holder, .. }) if holder.is_dead() => register(holder.session()),
            answer => answer,
        }
    }

    /// Gives the name of a worker up, so that another process may have it at once.
    ///
    /// # Errors
    /// When Redis does not answer as it should.
    pub fn leave(&mut self, worker: &WorkerName) -> Result<(), RedisError> {
        let call = Call::new(scripts::LEAVE).arg(worker.as_str()).arg(self.session.as_str());
        self.ask(call, |value| matches!(value, Value::Int(_)).then_some(()))
    }

    /// Claims open tasks that are due, those first that the original would claim first. An empty list when there is none.
    ///
    /// # Errors
    /// When Redis does not answer as it should.
    pub fn claim(&mut self, claim: &Claim<'_>) -> Result<Vec<Assignment>, RedisError> {
        self.ask(claim_call(claim), |value| claimed::list(value, claim.worker))
    }

    /// Reports the end of a run.
    ///
    /// # Errors
    /// When Redis does not answer as it should.
    pub fn report(&mut self, report: &Report<'_>) -> Result<Reported, RedisError> {
        self.ask(report_call(report), reported)
    }

    /// Makes several reports, and the claim behind them if there is one, in one round trip. Without a claim nothing is claimed.
    ///
    /// # Errors
    /// When Redis does not answer as it should. All are to be repeated then.
    pub fn report_all(
        &mut self,
        reports: &[Report<'_>],
        claim: Option<&Claim<'_>>,
    ) -> Result<(Vec<Reported>, Vec<Assignment>), RedisError> {
        let calls: Vec<Call> = reports.iter().map(report_call).chain(claim.map(claim_call)).collect();
        let mut answers = self.link.call_all(&calls)?.into_iter();
        let heard = answers.by_ref().take(reports.len()).map(reported).collect::<Option<Vec<_>>>();
        let heard = heard.ok_or_else(|| self.link.reply(scripts::REPORT.name))?;
        let Some(claim) = claim else { return Ok((heard, Vec::new())) };
        let claimed = answers.next().and_then(|value| claimed::list(value, claim.worker));
        Ok((heard, claimed.ok_or_else(|| self.link.reply(scripts::CLAIM.name))?))
    }

    /// The runs that an earlier process of this name has left, as it has claimed them. A run whose lease that process has not renewed
    /// counts as a loss, once for each process that asks: the run may have ended the process. Beyond `max_losses` a run is left out.
    ///
    /// # Errors
    /// When Redis does not answer as it should.
    pub fn own_claims(&mut self, worker: &WorkerName, max_losses: u32) -> Result<Vec<Assignment>, RedisError> {
        let call = Call::new(scripts::OWN_CLAIMED).arg(worker.as_str()).arg(seconds(LEASE)).arg(max_losses.to_string());
        self.ask(call.arg(self.session.as_str()), |value| claimed::list(value, worker))
    }

    /// Renews the leases of a worker's name and runs, and shows that it lives. To be called every [`RENEWAL_INTERVAL`], also without
    /// runs. Returns the runs that the worker has lost.
    ///
    /// # Errors
    /// When another process has the name, or Redis does not answer as it should.
    pub fn renew(&mut self, worker: &WorkerName, held: &[Fence]) -> Result<Vec<LostRun>, RedisError> {
        let call = Call::new(scripts::RENEW).arg(worker.as_str()).arg(seconds(LEASE));
        let mut call = call.arg(self.session.as_str());
        for fence in held {
            call = call.arg(fence.task.to_string()).arg(fence.round.to_string()).arg(&fence.started);
        }
        self.ask(call, |value| reply::list(value)?.into_iter().map(lost).collect())
            .map_err(|error| taken(error, worker))
    }

    /// Gives a run back whose program was not started: the task waits again in the same round, and nothing is counted. `false` for a
    /// run that the worker has lost.
    ///
    /// # Errors
    /// When Redis does not answer as it should.
    pub fn give_back(&mut self, fence: &Fence) -> Result<bool, RedisError> {
        let hops = hop::encode(&moves::given_back(fence.round, fence.worker.as_str()));
        self.ask(fenced(scripts::GIVE_BACK, fence).arg(hops.to_string()), |value| {
            matches!(value, Value::Int(_)).then_some(value == Value::Int(1))
        })
    }

    /// Gives the runs back that a dead process of this name has left, or only this one. Each counts as a loss: the run may have ended
    /// that process. Returns the tasks with their states.
    ///
    /// # Errors
    /// When Redis does not answer as it should.
    pub fn lose_own_runs(
        &mut self,
        worker: &WorkerName,
        max_losses: u32,
        only: Option<&Fence>,
    ) -> Result<Vec<(TaskId, State)>, RedisError> {
        let call = Call::new(scripts::OWN_RUNNING).arg(worker.as_str());
        let runs = self.ask(call, |value| {
            reply::list(value)?.into_iter().map(|row| orphan(row, worker)).collect::<Option<Vec<_>>>()
        })?;
        let mut lost = Vec::with_capacity(runs.len());
        for (fence, losses, fails) in runs.into_iter().filter(|(fence, ..)| only.is_none_or(|only| only == fence)) {
            let losses = Budget { used: losses, max: max_losses.into() };
            let hops = moves::lost(Some(State::Running), fence.round, Some(worker.as_str()), losses, fails);
            let call = fenced(scripts::GIVE_BACK, &fence).arg(hop::encode(&hops).to_string()).arg("loss");
            let has_moved = self.ask(call, |value| matches!(value, Value::Int(_)).then_some(value == Value::Int(1)))?;
            lost.extend(hops.last().filter(|_| has_moved).map(|hop| (fence.task, hop.to)));
        }
        Ok(lost)
    }

    /// Runs one script and reads its answer.
    pub(super) fn ask<T>(&mut self, call: Call, read: impl FnOnce(Value) -> Option<T>) -> Result<T, RedisError> {
        let name = call.name();
        let value = self.link.call(call)?;
        read(value).ok_or_else(|| self.link.reply(name))
    }

    /// Runs a script for a caller that ends with the answer: during an outage it is repeated, for a bounded time.
    pub(super) fn ask_patiently<T>(
        &mut self,
        call: &Call,
        read: impl FnOnce(Value) -> Option<T>,
    ) -> Result<T, RedisError> {
        let value = patiently(RedisError::is_away, || self.link.call(call.clone()))?;
        read(value).ok_or_else(|| self.link.reply(call.name()))
    }
}

fn seconds(time: Duration) -> String {
    time.as_secs().to_string()
}

fn claim_call(claim: &Claim<'_>) -> Call {
    let call = Call::new(scripts::CLAIM).arg(claim.worker.as_str()).arg(claim.token).arg(claim.count.to_string());
    call.arg(seconds(LEASE)).arg(seconds(TOKEN_LIFETIME))
}

fn report_call(report: &Report<'_>) -> Call {
    let fence = report.fence;
    let (hops, output, error) = match report.ending {
        Ending::Executed { output, error } => (moves::executed(fence.round), output, error),
        Ending::TimedOut { output, error, timeouts } => (moves::timed_out(fence.round, timeouts), output, error),
    };
    let started = float(&fence.started).unwrap_or_default();
    let lines: Vec<String> =
        report.log.iter().map(|line| log::line(started + line.since_start.as_secs_f64(), &line.text)).collect();
    fenced(scripts::REPORT, fence).arg(hop::encode(&hops).to_string()).arg(output).arg(error).arg(lines.join("\n"))
}

fn fenced(code: scripts::Code, fence: &Fence) -> Call {
    let call = Call::new(code).arg(fence.task.to_string()).arg(fence.round.to_string());
    call.arg(fence.worker.as_str()).arg(&fence.started)
}

fn reported(value: Value) -> Option<Reported> {
    let texts = reply::texts(value)?;
    match texts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["moved"] => Some(Reported::Moved),
        ["already"] => Some(Reported::Already),
        ["gone", state, round] => Some(Reported::Gone { state: state.to_owned(), round: round.to_owned() }),
        _ => None,
    }
}

/// The error of a script that has found another process with the name of this worker.
fn taken(error: RedisError, worker: &WorkerName) -> RedisError {
    match &error {
        RedisError::Failed { message, .. } => match message.strip_prefix("NAMETAKEN ") {
            Some(about) => RedisError::NameTaken { worker: worker.clone(), holder: Box::new(Holder::read(about)) },
            None => error,
        },
        _ => error,
    }
}

fn orphan(row: Value, worker: &WorkerName) -> Option<(Fence, i64, Budget)> {
    let [task, round, started, losses, fails, max_fails] = reply::texts(row)?.try_into().ok()?;
    let fence = Fence { task: task.parse().ok()?, round: round.parse().ok()?, worker: worker.clone(), started };
    Some((fence, int(&losses)?, Budget { used: int(&fails)?, max: int(&max_fails)? }))
}

fn lost(value: Value) -> Option<LostRun> {
    let [task, state, round] = reply::texts(value)?.try_into().ok()?;
    Some(LostRun { task: task.parse().ok()?, state, round })
}
