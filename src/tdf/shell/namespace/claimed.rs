//! A task that a worker has claimed, as the scripts answer it.

use std::time::Duration;

use redis::Value;

use super::super::reply;
use crate::wire::Budget;
use base::tdf::number::{float, int};
use base::tdf::{Fence, TaskId, WorkerName};

/// A task that is this worker's to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Claimed {
    /// The task.
    pub task: TaskId,
    /// The worker.
    pub worker: WorkerName,
    /// The round of the task, from 0.
    pub round: u32,
    /// `R:running` as it is written.
    pub started: String,
    /// The name of the program; not checked.
    pub program: String,
    /// Where it comes from; not checked.
    pub source: String,
    /// The text behind `./run.sh` in the command, as it is.
    pub input: Vec<u8>,
    /// How long the run may take; `None` for ever.
    pub timeout: Option<Duration>,
    /// When the run must have ended, in unix seconds; `None` for never.
    pub end_before: Option<f64>,
    /// How often the task has timed out, for [`super::Ending::TimedOut`].
    pub timeouts: Budget,
}

impl Claimed {
    /// The fence of the run.
    #[must_use]
    pub fn fence(&self) -> Fence {
        Fence { task: self.task, round: self.round, worker: self.worker.clone(), started: self.started.clone() }
    }

    pub(super) fn list(value: Value, worker: &WorkerName) -> Option<Vec<Self>> {
        reply::list(value)?.into_iter().map(|row| Self::read(row, worker)).collect()
    }

    fn read(row: Value, worker: &WorkerName) -> Option<Self> {
        let [task, round, started, program, source, input, timeout, end_before, used, max] =
            reply::list(row)?.try_into().ok()?;
        let name = |value| reply::bytes(value).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let number = |value| reply::text(value).and_then(|text| float(&text));
        let count = |value| reply::text(value).and_then(|text| int(&text));
        let (timeout, end_before) = (number(timeout)?, number(end_before)?);
        Some(Self {
            task: reply::parsed(task)?,
            worker: worker.clone(),
            round: reply::parsed(round)?,
            started: reply::text(started)?,
            program: name(program)?,
            source: name(source)?,
            input: reply::bytes(input)?,
            // A time-out below zero has passed at once, and one beyond all time is none.
            timeout: Duration::try_from_secs_f64(timeout.max(0.0)).ok(),
            end_before: end_before.is_finite().then_some(end_before),
            timeouts: Budget { used: count(used)?, max: count(max)? },
        })
    }
}
