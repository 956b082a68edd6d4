//! The line to Redis: calls on a thread of its own, one after the other, so that a slow Redis holds nothing else up.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use super::results::Finished;
use crate::shell::background::Background;
use crate::shell::readable;
use crate::shell::tdf::{Claim, Claimed, Lost, Namespace, RedisError, Reported, WorkerKind};
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
    GivenBack(Result<(), RedisError>),
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
        let mut caller = Caller { namespace, worker, max_losses, is_known: true };
        Ok(Self(Background::start("redis", move |call, answer| caller.serve(call, answer))?))
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

struct Caller {
    namespace: Namespace,
    worker: WorkerName,
    max_losses: u32,
    /// Whether this Redis has heard of the worker: one that comes back may have forgotten it.
    is_known: bool,
}

impl Caller {
    fn serve(&mut self, call: Call, answer: &dyn Fn(Answer)) {
        match call {
            Call::Recover => {
                let (worker, max_losses) = (self.worker.clone(), self.max_losses);
                answer(Answer::Recovered(self.ask(|namespace| namespace.lose_own_runs(&worker, max_losses))));
            }
            Call::Claim(number) => {
                let claimed = self.with_claim(number, Namespace::claim);
                answer(Answer::Claimed(claimed.map(first)));
            }
            Call::Report(finished, None) => {
                answer(Answer::Reported(self.ask(|namespace| namespace.report(&finished.report()))));
            }
            Call::Report(finished, Some(number)) => {
                let both =
                    self.with_claim(number, |namespace, claim| namespace.report_and_claim(&finished.report(), claim));
                match both {
                    Ok((reported, claimed)) => {
                        answer(Answer::Reported(Ok(reported)));
                        answer(Answer::Claimed(Ok(first(claimed))));
                    }
                    Err(error) => answer(Answer::Reported(Err(error))),
                }
            }
            Call::Renew(fence) => {
                let worker = self.worker.clone();
                let held: Vec<Fence> = fence.iter().cloned().collect();
                let renewed = self.ask(|namespace| namespace.renew(&worker, &held));
                answer(Answer::Renewed(fence, renewed.map(|lost| lost.into_iter().next())));
            }
            Call::GiveBack(fence) => answer(Answer::GivenBack(self.ask(|namespace| namespace.give_back(&fence)))),
            Call::Leave => answer(Answer::Left(self.namespace.leave(&self.worker))),
        }
    }

    fn with_claim<T>(
        &mut self,
        number: u64,
        call: impl FnOnce(&mut Namespace, &Claim<'_>) -> Result<T, RedisError>,
    ) -> Result<T, RedisError> {
        let (worker, token) = (self.worker.clone(), format!("{}-{number}", self.namespace.session()));
        self.ask(|namespace| call(namespace, &Claim { worker: &worker, token: &token, count: 1 }))
    }

    fn ask<T>(&mut self, call: impl FnOnce(&mut Namespace) -> Result<T, RedisError>) -> Result<T, RedisError> {
        if !self.is_known {
            self.namespace.register(&self.worker, WorkerKind::Worker)?;
            self.is_known = true;
        }
        let answer = call(&mut self.namespace);
        self.is_known = answer.is_ok();
        answer
    }
}

fn first(claimed: Vec<Claimed>) -> Option<Claimed> {
    claimed.into_iter().next()
}
