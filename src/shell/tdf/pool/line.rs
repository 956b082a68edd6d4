//! The line to Redis: calls on a thread of its own. Reports that wait together leave together, with the claim behind them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::engine::tdf::pool::RunNumber;
use crate::shell::background::Background;
use crate::shell::readable;
use crate::shell::tdf::caller::Caller;
use crate::shell::tdf::results::Finished;
use crate::shell::tdf::{Claimed, Lost, Namespace, RedisError, Report, Reported, WorkerKind};
use crate::types::tdf::{Fence, WorkerName};

/// How long a controller that ends waits for Redis.
const LEAVE_MAX: Duration = Duration::from_millis(500);

/// Calls that are looked at together.
const BATCH_MAX: usize = 256;

/// Bytes of reports that leave together, at most, unless one of them is longer.
const BYTES_MAX: usize = 16 << 20;

#[derive(Debug)]
pub(super) enum Call {
    Join,
    Claim(u64, u32),
    Report(RunNumber, Arc<Finished>),
    /// With true, the run is lost.
    Return(RunNumber, Fence, bool),
    Renew(Vec<Fence>),
    Leave,
}

#[derive(Debug)]
pub(super) enum Answer {
    Joined(Result<Vec<Claimed>, RedisError>),
    Claimed(Result<Vec<Claimed>, RedisError>),
    Reported(RunNumber, Result<Reported, RedisError>),
    Returned(RunNumber, Result<(), RedisError>),
    Renewed(Vec<Fence>, Result<Vec<Lost>, RedisError>),
    Left,
}

pub(super) struct Line(Background<Vec<Call>, Vec<Answer>>);

impl Line {
    pub(super) fn start(namespace: Namespace, worker: WorkerName, max_losses: u32) -> io::Result<Self> {
        let mut caller = Caller { namespace, worker, kind: WorkerKind::Controller, is_known: false };
        let work = move |calls: Vec<Vec<Call>>, answer: &dyn Fn(Vec<Answer>)| {
            serve(&mut caller, max_losses, calls.into_iter().flatten().collect(), answer);
        };
        Ok(Self(Background::start_batches("tdf-redis", BATCH_MAX, work)?))
    }

    /// Calls that are looked at together.
    pub(super) fn ask(&self, calls: Vec<Call>) {
        if !calls.is_empty() {
            self.0.give(calls);
        }
    }

    /// The answers of one round trip.
    pub(super) fn poll(&self) -> Option<Vec<Answer>> {
        self.0.poll()
    }

    /// Makes the calls that wait, and gives the name up; a Redis that is away is not waited for. The answers are returned.
    pub(super) fn leave(&self) -> Vec<Answer> {
        self.ask(vec![Call::Leave]);
        let mut answers = Vec::new();
        while readable::is_readable(&self.0, Some(LEAVE_MAX)) {
            while let Some(more) = self.poll() {
                answers.extend(more);
                if matches!(answers.last(), Some(Answer::Left)) {
                    return answers;
                }
            }
        }
        answers
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn serve(caller: &mut Caller, max_losses: u32, calls: Vec<Call>, answer: &dyn Fn(Vec<Answer>)) {
    let one = |only| answer(vec![only]);
    let mut reports: Vec<(RunNumber, Arc<Finished>)> = Vec::new();
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
            Call::Return(run, fence, true) => {
                let lost = caller.ask(|namespace, worker| namespace.lose_own_runs(worker, max_losses, Some(&fence)));
                one(Answer::Returned(run, lost.map(drop)));
            }
            Call::Return(run, fence, false) => {
                one(Answer::Returned(run, caller.ask(|namespace, _| namespace.give_back(&fence)).map(drop)));
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
fn report(
    caller: &mut Caller,
    waiting: &mut Vec<(RunNumber, Arc<Finished>)>,
    claim: Option<(u64, u32)>,
    answer: &dyn Fn(Vec<Answer>),
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
