//! The line to Redis: calls on a thread of its own, one after the other, so that a slow Redis holds nothing else up.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::shell::background::Background;
use crate::shell::readable;
use crate::shell::tdf::caller::Caller;
use crate::shell::tdf::results::Finished;
use crate::shell::tdf::{Claimed, Lost, Namespace, RedisError, Reported, WorkerKind};
use crate::types::tdf::{Fence, State, TaskId, WorkerName};

/// How long a worker that ends waits for Redis.
const LEAVE_MAX: Duration = Duration::from_millis(500);

/// What Redis is asked. Numbers of claims become tokens.
#[derive(Debug)]
pub(super) enum Call {
    Recover,
    Claim(u64),
    Report(Arc<Finished>, Option<u64>),
    Renew(Option<Fence>),
    GiveBack(Fence),
    Leave,
}

/// Its answer.
#[derive(Debug)]
pub(super) enum Answer {
    Recovered(Result<Vec<(TaskId, State)>, RedisError>),
    Claimed(Result<Option<Claimed>, RedisError>),
    Reported(Result<Reported, RedisError>),
    Renewed(Option<Fence>, Result<Option<Lost>, RedisError>),
    GivenBack(Result<bool, RedisError>),
    Left(Result<(), RedisError>),
}

impl Answer {
    /// Why there is none.
    pub(super) const fn error(&self) -> Option<&RedisError> {
        match self {
            Self::Recovered(Err(error))
            | Self::Claimed(Err(error))
            | Self::Reported(Err(error))
            | Self::Renewed(_, Err(error))
            | Self::GivenBack(Err(error))
            | Self::Left(Err(error)) => Some(error),
            _ => None,
        }
    }
}

pub(super) struct Line(Background<Call, Answer>);

impl Line {
    /// `namespace` is connected, and knows the worker.
    pub(super) fn start(namespace: Namespace, worker: WorkerName, max_losses: u32) -> io::Result<Self> {
        let mut caller = Caller { namespace, worker, kind: WorkerKind::Worker, is_known: true };
        Ok(Self(Background::start("redis", move |call, answer| serve(&mut caller, max_losses, call, answer))?))
    }

    pub(super) fn ask(&self, call: Call) {
        self.0.give(call);
    }

    /// Gives the name up, so that the next process need not wait for the end of its lease; a Redis that is away is not waited for.
    pub(super) fn leave(self) {
        self.ask(Call::Leave);
        while readable::is_readable(&self.0, Some(LEAVE_MAX)) {
            // Answers to earlier calls may come first, and one ring tells of all that are there.
            while let Some(answer) = self.poll() {
                if let Answer::Left(left) = answer {
                    return left.unwrap_or_else(|error| log::debug!("{error}"));
                }
            }
        }
    }

    pub(super) fn poll(&self) -> Option<Answer> {
        self.0.poll()
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn serve(caller: &mut Caller, max_losses: u32, call: Call, answer: &dyn Fn(Answer)) {
    match call {
        Call::Recover => {
            let lost = caller.ask(|namespace, worker| namespace.lose_own_runs(worker, max_losses, None));
            answer(Answer::Recovered(lost));
        }
        Call::Claim(number) => {
            answer(Answer::Claimed(caller.with_claim((number, 1), Namespace::claim).map(first)));
        }
        Call::Report(finished, None) => {
            answer(Answer::Reported(caller.ask(|namespace, _| namespace.report(&finished.report()))));
        }
        Call::Report(finished, Some(number)) => {
            let report = finished.report();
            match caller.with_claim((number, 1), |namespace, claim| namespace.report_and_claim(&report, claim)) {
                Ok((reported, claimed)) => {
                    answer(Answer::Reported(Ok(reported)));
                    answer(Answer::Claimed(Ok(first(claimed))));
                }
                Err(error) => answer(Answer::Reported(Err(error))),
            }
        }
        Call::Renew(fence) => {
            let renewed = caller.ask(|namespace, worker| namespace.renew(worker, fence.as_slice()));
            answer(Answer::Renewed(fence, renewed.map(|lost| lost.into_iter().next())));
        }
        Call::GiveBack(fence) => {
            answer(Answer::GivenBack(caller.ask(|namespace, _| namespace.give_back(&fence))));
        }
        Call::Leave => answer(Answer::Left(caller.namespace.leave(&caller.worker))),
    }
}

fn first(claimed: Vec<Claimed>) -> Option<Claimed> {
    claimed.into_iter().next()
}
