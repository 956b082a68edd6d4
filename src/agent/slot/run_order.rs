//! The part of a dispatch that the engine needs for its run.

use std::time::Duration;

use api::wire::requests::apply::Dispatch;
use base::{Round, TaskId};

/// The terms of a run. The rest of the dispatch is the concern of the shell.
#[derive(Debug)]
pub(super) struct RunOrder {
    pub(super) task: TaskId,
    pub(super) round: Round,
    /// The longest delay of a report, except that of the end.
    pub(super) batch_delay: Duration,
    /// The length of the lease of an exclusive task.
    pub(super) lease: Option<Duration>,
    /// The time in which the task of a step may finish early.
    pub(super) grace: Option<Duration>,
    /// Whether the task names files that are to be kept.
    pub(super) has_outputs: bool,
}

impl From<&Dispatch> for RunOrder {
    fn from(dispatch: &Dispatch) -> Self {
        let (task, round, batch_delay, lease) = (dispatch.task, dispatch.round, dispatch.batch_delay, dispatch.lease);
        let grace = dispatch.step.as_ref().map(|step| step.grace);
        let has_outputs = dispatch.files.as_ref().is_some_and(|files| !files.outputs.is_empty());
        Self { task, round, batch_delay, lease, grace, has_outputs }
    }
}
