//! The phases of a run: see the table of [`run`](super::run).

use std::time::Duration;

use crate::wire::{FromWorker, Request, RequestId};
use base::{Mono, Now, Usd};
use proc::ladder::RunMachine;

#[derive(Debug)]
pub(super) enum Run {
    Free,
    Active(Box<ActiveRun>),
}

#[derive(Debug)]
pub(super) struct ActiveRun {
    pub(super) request: RequestId,
    /// Name of the prompt's file, for people.
    pub(super) file: String,
    /// Moment of the acknowledgement, from which the master also counts the time.
    pub(super) since: Mono,
    pub(super) limit: Option<Duration>,
    pub(super) state: State,
    /// Cost of the run, if its output contains it.
    pub(super) cost: Option<Usd>,
    /// Why the run is being ended, if it is.
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
    /// The result is not wanted.
    Void,
    /// The time limit has passed.
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
        Self::Active(Box::new(ActiveRun {
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
        if let Self::Active(run) = self { Some(&run.request) } else { None }
    }

    /// True for a run whose result is wanted.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(self, Self::Active(run) if run.ending != Some(Ending::Void))
    }

    /// True if the run has ended, and only its report is left.
    pub(super) fn is_reporting(&self) -> bool {
        matches!(self, Self::Active(run) if matches!(run.state, State::Reporting(_)))
    }

    pub(super) fn is_of(&self, id: &RequestId) -> bool {
        matches!(self, Self::Active(run) if run.request == *id)
    }

    #[cfg(test)]
    pub(super) fn is_ending(&self) -> bool {
        let lives = |state: &State| matches!(state, State::Starting | State::Run(RunMachine { end: None, .. }));
        matches!(self, Self::Active(run) if run.ending.is_some() || !lives(&run.state))
    }
}

impl ActiveRun {
    /// A master that applies the time limit itself disconnects the worker some seconds after it. The prompt has failed, and does
    /// not wait again.
    pub(super) fn is_overdue(&self, now: Now) -> bool {
        self.limit.is_some_and(|limit| now.mono.since(self.since) >= limit)
    }
}

/// A report that is not acknowledged yet.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) message: FromWorker,
    /// Rest of the worker afterwards.
    pub(super) pause: Option<Duration>,
    /// The run has no results.
    pub(super) is_bare: bool,
}

impl Report {
    /// Whether results precede the report.
    pub(super) const fn has_results(&self) -> bool {
        !self.is_bare && !matches!(self.message, FromWorker::Failed { is_loss: true, .. })
    }

    /// The report on a run without a pause after it.
    pub(super) const fn of(message: FromWorker) -> Self {
        Self { message, pause: None, is_bare: false }
    }
}
