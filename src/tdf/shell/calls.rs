//! The calls of a worker, and those of the pool of a controller, to Redis: on a thread of their own, one after the other, so that a
//! slow Redis holds nothing else up. Reports that wait together leave together, with the claim behind them.
//!
//! Renewals have a thread and a connection of their own: a long report, which may be on its way for longer than a lease, does not end the
//! leases of all runs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use super::caller::Caller;
use super::{LostRun, RedisError, Report, Reported};
use crate::engine::pool::Finished;
use crate::engine::worker::Assignment;
use base::tdf::{Fence, State, TaskId};
use proc::background::Background;
use proc::readable;

/// How long a process that ends waits for Redis.
const LEAVE_MAX: Duration = Duration::from_millis(500);

/// Calls that are looked at together.
const BATCH_MAX: usize = 256;

/// Bytes of reports that leave together, at most, unless one of them is longer.
const BYTES_MAX: usize = 16 << 20;

/// A call to Redis. `R` identifies a run of the caller.
#[derive(Debug)]
pub(super) enum Call<R> {
    /// Take up the claims that an earlier process of this name has left.
    Join,
    /// Give up the runs that an earlier process of this name has left.
    Recover,
    /// Claim so many tasks. The number of the claim becomes its token.
    Claim(u64, u32),
    Report(R, Arc<Finished>),
    /// With true, the run is lost.
    Return(R, Fence, bool),
    Renew(Vec<Fence>),
    Leave,
}

/// The answer.
#[derive(Debug)]
pub(super) enum Answer<R> {
    Joined(Result<Vec<Assignment>, RedisError>),
    Recovered(Result<Vec<(TaskId, State)>, RedisError>),
    Claimed(Result<Vec<Assignment>, RedisError>),
    Reported(R, Result<Reported, RedisError>),
    /// Whether the run was the caller's.
    Returned(R, Result<bool, RedisError>),
    Renewed(Vec<Fence>, Result<Vec<LostRun>, RedisError>),
    Left,
}

impl<R> Answer<R> {
    /// The error in place of an answer.
    pub(super) const fn error(&self) -> Option<&RedisError> {
        match self {
            Self::Joined(Err(error))
            | Self::Recovered(Err(error))
            | Self::Claimed(Err(error))
            | Self::Reported(_, Err(error))
            | Self::Returned(_, Err(error))
            | Self::Renewed(_, Err(error)) => Some(error),
            _ => None,
        }
    }
}

type Thread<R> = Background<Vec<Call<R>>, Vec<Answer<R>>>;

/// The threads.
pub(super) struct RedisCalls<R> {
    calls: Thread<R>,
    renewals: Thread<R>,
}

impl<R: Copy + Send + 'static> RedisCalls<R> {
    pub(super) fn start(caller: Caller, max_losses: u32) -> io::Result<Self> {
        let start = |name, mut caller: Caller| {
            let work = move |calls: Vec<Vec<Call<R>>>, answer: &dyn Fn(Vec<Answer<R>>)| {
                serve(&mut caller, max_losses, calls.into_iter().flatten().collect(), answer);
            };
            Background::start_batches(name, BATCH_MAX, work)
        };
        Ok(Self { renewals: start("redis-renewals", caller.another())?, calls: start("redis", caller)? })
    }

    /// Calls that are looked at together.
    pub(super) fn ask(&self, calls: Vec<Call<R>>) {
        let (renewals, calls): (Vec<_>, Vec<_>) = calls.into_iter().partition(|call| matches!(call, Call::Renew(_)));
        for (thread, calls) in [(&self.calls, calls), (&self.renewals, renewals)] {
            if !calls.is_empty() {
                thread.give(calls);
            }
        }
    }

    /// The answers of one round trip.
    pub(super) fn poll(&self) -> Option<Vec<Answer<R>>> {
        self.calls.poll().or_else(|| self.renewals.poll())
    }

    /// The descriptors that are readable when there are answers.
    pub(super) fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.calls.as_fd(), self.renewals.as_fd()]
    }

    /// Makes the calls that wait, and gives the name up, so that the next process need not wait for the end of its lease; a Redis
    /// that is away is not waited for. The answers are returned.
    pub(super) fn leave(&self) -> Vec<Answer<R>> {
        let mut answers = Vec::new();
        // A renewal that waits takes the name again.
        for thread in [&self.calls, &self.renewals] {
            thread.give(vec![Call::Leave]);
            if !Self::has_left(thread, &mut answers) {
                break;
            }
        }
        answers
    }

    /// Waits until this thread has left; false if nothing is heard for long.
    fn has_left(thread: &Thread<R>, answers: &mut Vec<Answer<R>>) -> bool {
        while readable::is_readable(thread, Some(LEAVE_MAX)) {
            while let Some(more) = thread.poll() {
                answers.extend(more);
                if matches!(answers.last(), Some(Answer::Left)) {
                    return true;
                }
            }
        }
        false
    }
}

fn serve<R: Copy>(caller: &mut Caller, max_losses: u32, calls: Vec<Call<R>>, answer: &dyn Fn(Vec<Answer<R>>)) {
    let one = |only| answer(vec![only]);
    let mut reports: Vec<(R, Arc<Finished>)> = Vec::new();
    for call in calls {
        if let Call::Report(run, finished) = call {
            let bytes = |finished: &Finished| finished.output.len() + finished.error.len();
            let waiting: usize = reports.iter().map(|(_, finished)| bytes(finished)).sum();
            if waiting + bytes(&finished) > BYTES_MAX {
                report(caller, &mut reports, None, answer);
            }
            reports.push((run, finished));
            continue;
        }
        if let Call::Claim(number, count) = call {
            report(caller, &mut reports, Some((number, count)), answer);
            continue;
        }
        report(caller, &mut reports, None, answer);
        match call {
            Call::Join => one(Answer::Joined(caller.ask(|namespace, worker| namespace.own_claims(worker, max_losses)))),
            Call::Recover => {
                let lost = caller.ask(|namespace, worker| namespace.lose_own_runs(worker, max_losses, None));
                one(Answer::Recovered(lost));
            }
            Call::Return(run, fence, true) => {
                let lost = caller.ask(|namespace, worker| namespace.lose_own_runs(worker, max_losses, Some(&fence)));
                one(Answer::Returned(run, lost.map(|lost| !lost.is_empty())));
            }
            Call::Return(run, fence, false) => {
                one(Answer::Returned(run, caller.ask(|namespace, _| namespace.give_back(&fence))));
            }
            Call::Renew(fences) => {
                let renewed = caller.ask(|namespace, worker| namespace.renew(worker, &fences));
                one(Answer::Renewed(fences, renewed));
            }
            Call::Leave => {
                if let Err(error) = caller.namespace.leave(&caller.worker) {
                    log::debug!("{error}");
                }
                one(Answer::Left);
            }
            Call::Report(..) | Call::Claim(..) => {}
        }
    }
    report(caller, &mut reports, None, answer);
}

/// Makes the reports that wait, and a claim, in one round trip.
fn report<R: Copy>(
    caller: &mut Caller,
    waiting: &mut Vec<(R, Arc<Finished>)>,
    claim: Option<(u64, u32)>,
    answer: &dyn Fn(Vec<Answer<R>>),
) {
    let waiting = std::mem::take(waiting);
    if waiting.is_empty() && claim.is_none() {
        return;
    }
    let reports: Vec<Report<'_>> = waiting.iter().map(|(_, finished)| finished.report()).collect();
    let answers = match claim {
        None => caller.ask(|namespace, _| namespace.report_all(&reports, None)),
        Some(claim) => caller.with_claim(claim, |namespace, claim| namespace.report_all(&reports, Some(claim))),
    };
    let runs = waiting.iter().map(|(run, _)| *run);
    answer(match answers {
        Ok((reported, claimed)) => {
            let reported = runs.zip(reported).map(|(run, reported)| Answer::Reported(run, Ok(reported)));
            reported.chain(claim.map(|_| Answer::Claimed(Ok(claimed)))).collect()
        }
        Err(error) => {
            let reported = runs.map(|run| Answer::Reported(run, Err(error.clone())));
            reported.chain(claim.map(|_| Answer::Claimed(Err(error.clone())))).collect()
        }
    });
}
