//! The part of a dispatch that the engine needs for its run.

use std::time::Duration;

use api::wire::requests::apply::Dispatch;
use base::{Round, TaskId};

/// What the job says about its run. The rest of it is the concern of the shell.
#[derive(Debug)]
pub(super) struct RunOrder {
    pub(super) task: TaskId,
    pub(super) round: Round,
    /// The longest delay of a report, except that of the end.
    pub(super) batch_delay: Duration,
    /// The length of its lease, if the task is exclusive.
    pub(super) lease: Option<Duration>,
    /// The time that it gets to finish early, if it is one of a step.
    pub(super) grace: Option<Duration>,
    /// Whether its task names files that are to be kept.
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
