//! The phases of a run: see the table of [`run`](super::run).

use std::time::Duration;

use crate::wire::{FromWorker, Request, RequestId};
use base::{Mono, Now, Usd};
use proc::ladder::RunMachine;

#[derive(Debug)]
pub(super) enum Run {
    Free,
    Taken(Box<Taken>),
}

#[derive(Debug)]
pub(super) struct Taken {
    pub(super) request: RequestId,
    /// Name of the prompt's file for people, as far as it is known.
    pub(super) file: String,
    /// Moment of the acknowledgement, from which the master also counts the time.
    pub(super) since: Mono,
    pub(super) limit: Option<Duration>,
    pub(super) state: State,
    /// The cost of the run, if its output tells one.
    pub(super) cost: Option<Usd>,
    /// Why it is being ended, if it is.
    pub(super) ending: Option<Ending>,
}

#[derive(Debug)]
pub(super) enum State {
    Starting,
    Run(RunMachine<Verdict>),
    Keeping { report: FromWorker },
    Reporting(Report),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Its result is not wanted.
    Void,
    /// It timed out.
    Overdue,
}

#[derive(Debug)]
pub(super) enum Verdict {
    Done,
    Failed(String),
    /// The command was killed from outside, for this reason.
    Lost(String),
    Overdue(String),
    /// The service behind the command is limited, for this long and for this reason.
    Limited(Duration, String),
    /// The worker pauses, for this long and for this reason.
    Braked(Duration, String),
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
            cost: None,
            ending: None,
        }))
    }

    pub(super) const fn is_free(&self) -> bool {
        matches!(self, Self::Free)
    }

    /// The request of the present run.
    pub(super) const fn id(&self) -> Option<&RequestId> {
        if let Self::Taken(run) = self { Some(&run.request) } else { None }
    }

    /// Whether there is a run whose result is wanted.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self, Self::Taken(run) if run.ending != Some(Ending::Void))
    }

    /// Whether the run has ended, and only its report is left.
    pub(super) fn is_reporting(&self) -> bool {
        matches!(self, Self::Taken(run) if matches!(run.state, State::Reporting(_)))
    }

    pub(super) fn is_of(&self, id: &RequestId) -> bool {
        matches!(self, Self::Taken(run) if run.request == *id)
    }

    #[cfg(test)]
    pub(super) fn is_ending(&self) -> bool {
        let lives = |state: &State| matches!(state, State::Starting | State::Run(RunMachine { end: None, .. }));
        matches!(self, Self::Taken(run) if run.ending.is_some() || !lives(&run.state))
    }
}

impl Taken {
    /// A master that applies the time limit itself disconnects some seconds after it: the prompt has failed, and does not
    /// wait again.
    pub(super) fn is_overdue(&self, now: Now) -> bool {
        self.limit.is_some_and(|limit| now.mono.since(self.since) >= limit)
    }
}

/// A report that is not acknowledged yet.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) message: FromWorker,
    /// How long the worker rests afterwards.
    pub(super) pause: Option<Duration>,
    /// Whether no results belong to it.
    pub(super) is_bare: bool,
}

impl Report {
    /// Whether results belong to it.
    pub(super) const fn has_results(&self) -> bool {
        !self.is_bare && !matches!(self.message, FromWorker::Failed { is_loss: true, .. })
    }

    /// The report on a run without a pause after it.
    pub(super) const fn of(message: FromWorker) -> Self {
        Self { message, pause: None, is_bare: false }
    }
}
